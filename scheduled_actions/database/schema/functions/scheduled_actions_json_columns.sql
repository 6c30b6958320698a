-- Returns the columns of a watched table's row `r` as a select list that is safe for `to_jsonb`. A value whose type is
-- not trusted becomes text, and an array of such values an array of texts: this calls the output function of the type,
-- which only a superuser can define.
-- In a transaction whose snapshot may be older than the row, the catalog may show another type than that of the row's value.
-- Each value is then checked to have the type that was examined.
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
          -- Object ids below this number are built-in types.
          a.atttypid < 16384 or scheduled_actions_type_is_trusted(a.atttypid) as is_trusted
        from pg_attribute a
        join pg_type t on t.oid = a.atttypid
        where a.attrelid = watched and a.attnum > 0 and not a.attisdropped
      ) c
    );
  end
  $$;
