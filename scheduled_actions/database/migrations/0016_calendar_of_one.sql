-- The calendar of one user is found without a look at that of the others.

-- Most actions name no user, or wait no more, and cost this index nothing.
create index scheduled_actions_of_user on scheduled_actions (user_id, scheduled_at, id)
  where status = 'pending' and user_id is not null;
create index scheduled_action_deadlines_recipients on scheduled_action_deadlines using gin (recipients jsonb_path_ops)
  where status in ('open', 'missed');
