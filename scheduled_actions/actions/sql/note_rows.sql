-- These rows become actions now, and no others before `seconds` have passed (null: never again); answers which of them are new.
insert into scheduled_action_for_each as f (team_id, name, key, until)
select %(team_id)s, %(name)s, k.key, coalesce(scheduled_actions_now() + make_interval(secs => %(seconds)s), 'infinity')
from unnest(%(keys)s::text[]) k (key)
-- In their order, so that two runs wait for each other in one direction only.
order by k.key
on conflict (team_id, name, key)
do update set until = excluded.until, created_at = scheduled_actions_now()
where f.until <= scheduled_actions_now()
returning key
