-- Returns the newest facts that match all filters, with ids below `before`.
select
  -- include: conditions/fact_columns
from scheduled_action_facts f
where (%(team_id)s::text is null or f.team_id = %(team_id)s)
  and (%(target_type)s::text is null or f.target_type = %(target_type)s)
  and (%(target_id)s::text is null or f.target_id = %(target_id)s)
  and (%(name)s::text is null or f.name = %(name)s)
  and (%(before)s::uuid is null or f.id < %(before)s)
order by f.id desc
limit %(limit)s
