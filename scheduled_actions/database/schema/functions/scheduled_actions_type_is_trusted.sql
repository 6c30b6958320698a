-- Returns whether values of a type may be converted to JSON with the privileges of the actions' owner: the role that owns the
-- table scheduled_actions and the functions of this package. `to_jsonb` calls casts to JSON, which the owner of a type can
-- define. So each type in the value must belong to a role that already has the privileges of the actions' owner: that role
-- itself, one of its members, or a superuser. The owner of a domain does not matter, because casts from domains are ignored.
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
