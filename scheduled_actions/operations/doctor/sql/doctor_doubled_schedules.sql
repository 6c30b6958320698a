-- Returns the action types of active schedules without a name of which another one was created by the same call, among the
-- latest `most` schedules without a name.
select d.action_type
from (
  select s.action_type, s.definition
  from scheduled_action_schedules s
  where s.name is null and s.status = 'active' and s.definition <> '{}'
  order by s.id desc
  limit %(most)s
) d
group by d.action_type, d.definition
having count(*) > 1
order by d.action_type
limit %(most_names)s
