-- Calendar feeds: private addresses that a calendar program reads.

create table scheduled_action_feeds (
  id uuid primary key default scheduled_actions_uuid7(),
  name text not null,
  -- SHA-256 of the secret in the address.
  digest bytea not null,
  -- Its first characters, to recognise it by.
  hint text not null,
  -- Null: what belongs to any team.
  team_id text,
  -- Null: of everybody, and of every type.
  user_id text,
  action_type text,
  -- With the token that made it, it ends. Null: made by the operator.
  token_id uuid references scheduled_action_tokens (id) on delete cascade,
  created_by text,
  created_at timestamptz not null default scheduled_actions_now(),
  -- Written at most once an hour.
  last_used_at timestamptz,
  revoked_at timestamptz,
  constraint scheduled_action_feeds_digest_is_known_once unique (digest),
  constraint scheduled_action_feeds_digest_is_sha256 check (octet_length(digest) = 32)
);
