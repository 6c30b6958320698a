-- The event type has been seen now (of that team, '' for none).
insert into webhook_event_types as t (team_id, event)
values (%(team_id)s, %(event)s)
on conflict (team_id, event) do update set last_seen_at = scheduled_actions_now()
