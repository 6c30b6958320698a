-- Returns the stored condition of an action: its own condition, and the actions that it waits for (`after`).
create or replace function scheduled_actions_condition(condition jsonb, after jsonb) returns jsonb
  language sql stable parallel safe
  as $$
    select case
      when after is null or after = '[]' then condition
      else jsonb_build_object('after', after)
        || case when condition is null then '{}' else jsonb_build_object('condition', condition) end
    end
  $$;
