-- The waiting actions are due now, except those that were rescheduled after the last check of their condition.
create or replace function scheduled_actions_make_due(ids uuid[]) returns void
  language sql volatile
  as $$
    update scheduled_actions a
    set scheduled_at = scheduled_actions_now(), updated_at = scheduled_actions_now()
    where a.id = any (array(
      select b.id
      from scheduled_actions b
      where b.id = any (ids)
        and b.status = 'pending'
        and b.scheduled_at > scheduled_actions_now()
        and b.scheduled_at = scheduled_actions_stored_instant(b.waiting ->> 'next_check_at')
      order by b.id
      for update))
  $$;
