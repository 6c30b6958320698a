-- Returns the feed with this digest, unless the feed was revoked, or the token that created the feed was revoked or has
-- expired. The last use of the feed is recorded at most once an hour.
with found as (
  select f.*
  from scheduled_action_feeds f
  left join scheduled_action_tokens t on t.id = f.token_id
  where f.digest = %(digest)s
    and f.revoked_at is null
    and t.revoked_at is null
    and (t.expires_at is null or t.expires_at > scheduled_actions_now())
),
noted as (
  update scheduled_action_feeds f
  set last_used_at = scheduled_actions_now()
  from found
  where f.id = found.id
    and (found.last_used_at is null or found.last_used_at < scheduled_actions_now() - interval '1 hour')
)
select
  -- include: calendar/feed_columns
from found f
