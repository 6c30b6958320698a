-- Returns the token with this digest, even if revoked or expired, so that the response can name the reason. Its last
-- use is recorded at most once an hour.
with found as (
  select t.*, t.expires_at <= scheduled_actions_now() as is_expired
  from scheduled_action_tokens t
  where t.digest = %(digest)s
),
noted as (
  update scheduled_action_tokens t
  set last_used_at = scheduled_actions_now()
  from found f
  where t.id = f.id
    and f.revoked_at is null
    and f.is_expired is not true
    and (f.last_used_at is null or f.last_used_at < scheduled_actions_now() - interval '1 hour')
)
select
  -- include: operations/token_columns
from found t
