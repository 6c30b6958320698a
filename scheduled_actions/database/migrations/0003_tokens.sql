-- Tokens of the management API, the answers that an Idempotency-Key brings back, and an index for what a team sees.

create table scheduled_action_tokens (
  id uuid primary key default scheduled_actions_uuid7(),
  name text not null,
  -- SHA-256 of the token: with 256 random bits in it nothing slower is needed.
  digest bytea not null,
  -- Its first characters, to recognise it by.
  hint text not null,
  role text not null,
  -- Null: not bound to a team.
  team_id text,
  created_by text,
  created_at timestamptz not null default scheduled_actions_now(),
  expires_at timestamptz,
  -- Written at most once an hour.
  last_used_at timestamptz,
  revoked_at timestamptz,
  constraint scheduled_action_tokens_digest_is_known_once unique (digest),
  constraint scheduled_action_tokens_role_is_known check (role in ('viewer', 'operator', 'admin')),
  constraint scheduled_action_tokens_digest_is_sha256 check (octet_length(digest) = 32)
);

-- What a POST with an Idempotency-Key answered, for a day. `scope` is the team, empty outside any.
create table scheduled_action_idempotency_keys (
  scope text not null,
  key text not null,
  -- SHA-256 of the request: the same key with another one is refused.
  digest bytea not null,
  -- Null only inside the transaction that is about to answer.
  answer jsonb,
  created_at timestamptz not null default scheduled_actions_now(),
  primary key (scope, key)
);
create index scheduled_action_idempotency_keys_created on scheduled_action_idempotency_keys (created_at);

-- What a team's tokens list and count: the newest first, status by status. "Nulls last" means nothing for ids; it keeps the
-- planner from taking the primary key instead, which has the same order and all other teams in it.
create index scheduled_actions_team on scheduled_actions (team_id, status, id desc nulls last)
  where team_id is not null;
