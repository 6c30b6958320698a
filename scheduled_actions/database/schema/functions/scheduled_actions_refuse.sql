-- Raises invalid_parameter_value with this message.
create or replace function scheduled_actions_refuse(problem text) returns boolean
  language plpgsql volatile
  as $$
  begin
    raise exception '%', problem using errcode = 'invalid_parameter_value';
  end
  $$;
