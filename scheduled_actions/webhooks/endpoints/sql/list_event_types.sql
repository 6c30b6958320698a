-- The event types that were seen (of that team), each with when it was last, in the order of their names.
select t.event, min(t.first_seen_at), max(t.last_seen_at)
from webhook_event_types t
where %(team_id)s::text is null or t.team_id = %(team_id)s
group by t.event
order by t.event
limit 1000
