-- Returns the events among the latest `most` events and deliveries, newest first, at most `most_events`. Large payloads are
-- not read.
select n.payload, n.team_id
from (
  select a.id, a.payload, a.team_id
  from scheduled_actions a
  where a.action_type = 'webhook:send'
  order by a.id desc
  limit %(most)s
) n
where case when pg_column_size(n.payload) <= 16384 then not n.payload ? 'endpoint' else false end
order by n.id desc
limit %(most_events)s
