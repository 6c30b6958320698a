-- Access: tokens, repeated requests, calendar feeds, sessions. The comment above a column describes its value and when the
-- value changes. Secrets are stored as digests; they contain 256 random bits, so SHA-256 is sufficient.

-- The tokens of the management API. A revoked or expired token keeps its row.
create table scheduled_action_tokens (
  -- UUID version 7: ids ascend in order of creation. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- A name for people. Never changes.
  name text not null,
  -- SHA-256 of the token. Never changes.
  digest bytea not null,
  -- The first characters of the token, for recognition. Never changes.
  hint text not null,
  -- `viewer`, `operator` or `admin`. Never changes.
  role text not null,
  -- The only team for which it is valid; null: not bound to a team. Never changes.
  team_id text,
  -- Who created it. Never changes.
  created_by text,
  -- When it was created. Never changes.
  created_at timestamptz not null default scheduled_actions_now(),
  -- When it expires; null: never. Never changes.
  expires_at timestamptz,
  -- When it was last used. Written at most once an hour.
  last_used_at timestamptz,
  -- When it was revoked. Set once.
  revoked_at timestamptz,
  constraint scheduled_action_tokens_digest_is_known_once unique (digest),
  constraint scheduled_action_tokens_role_is_known check (role in ('viewer', 'operator', 'admin')),
  constraint scheduled_action_tokens_digest_is_sha256 check (octet_length(digest) = 32)
);

-- The answers to requests with an Idempotency-Key. Inserted by the request, deleted after a day.
create table scheduled_action_idempotency_keys (
  -- The team of the request; '' for none.
  scope text not null,
  -- The key of the request.
  key text not null,
  -- SHA-256 of the request: the same key with another request is refused.
  digest bytea not null,
  -- The answer. Null only inside the transaction that handles the request.
  answer jsonb,
  -- When the request arrived.
  created_at timestamptz not null default scheduled_actions_now(),
  primary key (scope, key)
);
create index scheduled_action_idempotency_keys_created on scheduled_action_idempotency_keys (created_at);

-- Calendar feeds: private addresses that a calendar program reads. A revoked feed keeps its row.
create table scheduled_action_feeds (
  -- UUID version 7: ids ascend in order of creation. Never changes.
  id uuid primary key default scheduled_actions_uuid7(),
  -- A name for people. Never changes.
  name text not null,
  -- SHA-256 of the secret in the address. Never changes.
  digest bytea not null,
  -- The first characters of the secret, for recognition. Never changes.
  hint text not null,
  -- The only team whose data it shows; null: all teams. Never changes.
  team_id text,
  -- The only user whose data it shows; null: all users. Never changes.
  user_id text,
  -- The only action type that it shows; null: all types. Never changes.
  action_type text,
  -- The token that created it; the feed is deleted with the token. Null: created by the operator. Never changes.
  token_id uuid references scheduled_action_tokens (id) on delete cascade,
  -- Who created it. Never changes.
  created_by text,
  -- When it was created. Never changes.
  created_at timestamptz not null default scheduled_actions_now(),
  -- When it was last read. Written at most once an hour.
  last_used_at timestamptz,
  -- When it was revoked. Set once.
  revoked_at timestamptz,
  constraint scheduled_action_feeds_digest_is_known_once unique (digest),
  constraint scheduled_action_feeds_digest_is_sha256 check (octet_length(digest) = 32)
);

-- Dashboard sessions that were ended by signing out: their cookies are refused. Deleted after the cookie has expired.
create table scheduled_action_ended_sessions (
  -- The id in the session's cookie.
  id uuid primary key,
  -- When the session was ended.
  ended_at timestamptz not null default scheduled_actions_now()
);
create index scheduled_action_ended_sessions_ended on scheduled_action_ended_sessions (ended_at);
