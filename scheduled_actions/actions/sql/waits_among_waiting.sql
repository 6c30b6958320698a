-- Returns pairs of waiting actions, at most `most`: an action, and one that must complete before it. Starts from
-- `action_id` (null: from all actions that were checked before) and follows all dependencies.
with recursive pair as not materialized (
  select w.id as action_id, a.id as topic
  from scheduled_actions w
  cross join lateral jsonb_array_elements_text(
    case when jsonb_typeof(w.condition -> 'after') = 'array' then w.condition -> 'after' else '[]' end) e (id)
  join scheduled_actions a
    on a.id = case when e.id ~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$' then e.id::uuid end
  where w.status in ('pending', 'processing', 'no_action')
    and a.status in ('pending', 'processing', 'no_action')
    -- No action waits for an action of another team.
    and a.team_id is not distinct from w.team_id
),
met (action_id, topic) as (
  select p.action_id, p.topic
  from pair p
  where p.action_id = any (case
    when %(action_id)s::uuid is not null then array[%(action_id)s::uuid]
    else array(
      select w.action_id
      from scheduled_action_waits w
      join scheduled_actions a on a.id = w.topic
      limit %(most)s
    )
  end)
  union
  select p.action_id, p.topic
  from met m
  join pair p on p.action_id = m.topic
)
select m.action_id, m.topic
from met m
limit %(most)s
