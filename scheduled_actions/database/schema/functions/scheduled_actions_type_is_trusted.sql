-- Returns whether values of a type may be converted to JSON with our owner's rights. `to_jsonb` calls a cast that the
-- owner of the type defines, so every type in it must belong to a role that has our owner's rights anyway (a superuser,
-- a member).
-- A cast from a domain is never used; its base type counts.
create or replace function scheduled_actions_type_is_trusted(type oid) returns boolean
  language sql stable
  as $$
    with recursive part (oid) as (
      select type
      union
      select inner_type.oid
      from part p
      join pg_type t on t.oid = p.oid
      cross join lateral (
        select t.typbasetype where t.typtype = 'd'
        union all
        select t.typelem where t.typtype = 'b' and t.typcategory = 'A' and t.typelem <> 0
        union all
        select f.atttypid from pg_attribute f where f.attrelid = t.typrelid and f.attnum > 0 and not f.attisdropped
      ) inner_type (oid)
    )
    select bool_and(t.typtype = 'd' or pg_has_role(t.typowner, current_user, 'usage'))
    from part p
    join pg_type t on t.oid = p.oid
  $$;
