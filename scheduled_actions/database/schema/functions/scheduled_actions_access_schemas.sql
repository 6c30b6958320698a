-- Returns the schemas through which other roles access these tables, and the team of each.
create or replace function scheduled_actions_access_schemas() returns table (access_schema text, team text)
  language sql stable
  as $$
    select n.nspname::text, d.sign ->> 'team'
    from pg_namespace n
    cross join lateral (
      select substring(obj_description(n.oid, 'pg_namespace') from '^scheduled_actions (\{.*\})$')::jsonb
    ) d (sign)
    where starts_with(n.nspname, 'scheduled_actions_')
      and n.nspowner = current_user::regrole
      and d.sign ->> 'home' = current_schema()
  $$;
