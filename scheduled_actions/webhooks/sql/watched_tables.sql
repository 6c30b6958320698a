-- Returns all watches in the catalog; `missing` lists the columns that a watch needs and the table no longer has.
select
  w.watched::text, w.watch, bool_and(w.enabled),
  array(
    select name from (
      select jsonb_array_elements_text((w.watch -> 'id') || coalesce(w.watch -> 'columns', '[]')) as name
      union select w.watch ->> 'team'
    ) needed
    where name <> all (scheduled_actions_watch_columns(w.watched))
    order by name
  )
from scheduled_actions_watch_triggers() w
group by w.watched, w.watch
order by w.watched::text, w.watch ->> 'entity'
