-- The event type has been seen now (of that team, '' for none); not one that is new where there are `most` already.
insert into webhook_event_types as t (team_id, event)
select %(team_id)s, %(event)s
where (
  select count(*)
  from (
    select
    from webhook_event_types o
    where o.team_id = %(team_id)s and o.event <> %(event)s
    limit %(most)s
  ) others
) < %(most)s
on conflict (team_id, event) do update set last_seen_at = scheduled_actions_now()
