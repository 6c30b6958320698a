-- The keys of rows that become actions are stored; the same rows may become actions again after `seconds` (null:
-- never). Returns the keys that were new or had expired.
insert into scheduled_action_for_each as f (team_id, name, key, until)
select %(team_id)s, %(name)s, k.key, coalesce(scheduled_actions_now() + make_interval(secs => %(seconds)s), 'infinity')
from unnest(%(keys)s::text[]) k (key)
-- In key order, so that two concurrent runs cannot deadlock.
order by k.key
on conflict (team_id, name, key)
do update set until = excluded.until, created_at = scheduled_actions_now()
where f.until <= scheduled_actions_now()
returning key
