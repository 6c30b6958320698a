-- The fact has this value, and the actions that wait for the fact are woken by a tick after the transaction has committed.
-- Returns `changed`: the fact had another value or none before; `has_waiters`: the value has changed and an action waits.
create or replace function report_fact(
  target jsonb, name text, value jsonb, team_id text default null, reported_by text default null
)
  returns table (changed boolean, has_waiters boolean)
  language plpgsql volatile
  as $$
  #variable_conflict use_variable
  declare
    team constant text := coalesce(team_id, '');
    type constant text := target ->> 'type';
    thing constant text := target ->> 'id';
    oldest uuid;
  begin
    if type is null or thing is null or length(type) not between 1 and 255 or length(thing) not between 1 and 255 then
      perform scheduled_actions_refuse('target: must be {"type": …, "id": …} with 1 to 255 characters each');
    elsif name is null or length(name) not between 1 and 255 or name like '%*%' then
      perform scheduled_actions_refuse('name: must have 1 to 255 characters and no *');
    elsif value is null then
      perform scheduled_actions_refuse('value: must be a JSON value, not an SQL null');
    elsif pg_column_size(value) > 4096 and octet_length(value::text) > 16384 then
      perform scheduled_actions_refuse(format('value is %s bytes; the limit is 16384', octet_length(value::text)));
    end if;
    update scheduled_action_facts f
    set reported_at = scheduled_actions_now(), reported_by = report_fact.reported_by
    where f.team_id = team and f.target_type = type and f.target_id = thing and f.name = report_fact.name
      and f.value = report_fact.value;
    if found then
      return query select false, false;
      return;
    end if;
    insert into scheduled_action_facts as f (team_id, target_type, target_id, name, value, reported_by)
    values (team, type, thing, name, value, reported_by)
    on conflict on constraint scheduled_action_facts_pkey
    do update set
      value = excluded.value, reported_by = excluded.reported_by, changed_at = excluded.changed_at,
      reported_at = excluded.reported_at;
    insert into scheduled_action_fact_changes (team_id, target_type, target_id, name, value, reported_by)
    values (team, type, thing, name, value, reported_by);
    select c.id into oldest
    from scheduled_action_fact_changes c
    where c.team_id = team and c.target_type = type and c.target_id = thing and c.name = report_fact.name
    order by c.id desc
    offset 1000 limit 1;
    if oldest is not null then
      delete from scheduled_action_fact_changes c
      where c.team_id = team and c.target_type = type and c.target_id = thing and c.name = report_fact.name
        and c.id <= oldest;
    end if;
    return query select true, scheduled_actions_fact_changed(team, type, thing, name);
  end
  $$;
