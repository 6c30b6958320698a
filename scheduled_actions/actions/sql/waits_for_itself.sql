-- Returns why an action's new condition and follow-ups are invalid (null: they are valid), and whether the action would
-- wait for itself: whether one of its dependencies waits for it, directly or through others. Ended actions wait for
-- nothing.
with recursive ahead (id) as (
  select g.id from unnest(%(after)s::uuid[]) g (id)
  union
  select e.id::uuid
  from ahead h
  join scheduled_actions a on a.id = h.id
  cross join lateral jsonb_array_elements_text(
    case when jsonb_typeof(a.condition -> 'after') = 'array' then a.condition -> 'after' else '[]' end) e (id)
  where a.status in ('pending', 'processing', 'no_action')
    and e.id ~* '^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$'
)
select
  scheduled_actions_dependencies_problem(
    %(condition)s::jsonb, to_jsonb(%(after)s::uuid[]), %(on_success)s::jsonb, %(on_failure)s::jsonb, %(team_id)s),
  exists (select from ahead h where h.id = %(id)s)
