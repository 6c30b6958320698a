-- Returns the current time. All statements read only this clock; tests replace the function to set the time.
create or replace function scheduled_actions_now() returns timestamptz
  language sql stable parallel safe
  as 'select statement_timestamp()';
