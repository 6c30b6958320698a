-- At most `limit` expired row keys are deleted.
delete from scheduled_action_for_each f
where f.ctid = any (array(
  select g.ctid
  from scheduled_action_for_each g
  where isfinite(g.until) and g.until < scheduled_actions_now()
  order by g.until
  limit %(limit)s))
