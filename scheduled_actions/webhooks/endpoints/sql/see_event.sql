-- The event type is recorded as emitted now (in the team; '' for none). A new type is not recorded if there are already
-- `most`.
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
