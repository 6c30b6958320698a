-- Returns the time. Every statement reads this clock and no other; tests replace the function to move it.
create or replace function scheduled_actions_now() returns timestamptz
  language sql stable parallel safe
  as 'select statement_timestamp()';
