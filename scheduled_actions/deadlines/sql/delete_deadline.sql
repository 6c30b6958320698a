-- The deadline is deleted, and the actions that wait for its status are woken.
with deleted as (
  delete from scheduled_action_deadlines d where d.id = %(deadline_id)s returning d.id
)
insert into scheduled_action_wakes (topic)
select d.id from deleted d where exists (select from scheduled_action_waits w where w.topic = d.id)
