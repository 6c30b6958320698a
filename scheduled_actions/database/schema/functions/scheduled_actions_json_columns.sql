-- Returns the columns of a watched table's row `r` as a select list that `to_jsonb` may be given. A value of a type that is not
-- trusted becomes its text, a list of such values a list of texts: that calls the type's output function, which only a
-- superuser can define. Under a snapshot that is older than the row the catalog may name another type than the row has:
-- there each value is checked to be of the type that was examined.
create or replace function scheduled_actions_json_columns(watched oid) returns text
  language plpgsql stable
  as $$
  declare
    is_old constant boolean := current_setting('transaction_isolation') <> 'read committed';
  begin
    return (
      select string_agg(
        format(
          case
            when not c.is_trusted then '%2$s as %1$I'
            when is_old then
              'case when pg_catalog.pg_typeof(r.%1$I)::pg_catalog.oid operator(pg_catalog.=) %3$L::pg_catalog.oid'
              ' then pg_catalog.to_jsonb(r.%1$I) else %2$s end as %1$I'
            else 'r.%1$I'
          end,
          c.name,
          format(
            'case when pg_catalog.num_nulls(r.%1$I) operator(pg_catalog.=) 0'
            ' then pg_catalog.to_jsonb(pg_catalog.format(%2$L, r.%1$I)%3$s) end',
            c.name, '%s', case when c.is_list then '::pg_catalog.text[]' end),
          c.type),
        ', ' order by c.number)
      from (
        select
          a.attnum as number, a.attname as name, a.atttypid as type, t.typcategory = 'A' as is_list,
          -- Types below this number came with the server.
          a.atttypid < 16384 or scheduled_actions_type_is_trusted(a.atttypid) as is_trusted
        from pg_attribute a
        join pg_type t on t.oid = a.atttypid
        where a.attrelid = watched and a.attnum > 0 and not a.attisdropped
      ) c
    );
  end
  $$;
