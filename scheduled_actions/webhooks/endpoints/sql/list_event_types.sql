-- Returns the event types that were emitted (in the team), with their first and latest instants, by name.
select t.event, min(t.first_seen_at), max(t.last_seen_at)
from webhook_event_types t
where %(team_id)s::text is null or t.team_id = %(team_id)s
group by t.event
order by t.event
limit 1000
