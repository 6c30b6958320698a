-- The given columns of the endpoint have the new values; the others are unchanged. No row if there is no endpoint with
-- this id (in the team).
update webhook_endpoints e
set
  url = coalesce(%(url)s, e.url),
  description = coalesce(%(description)s, e.description),
  patterns = coalesce(%(patterns)s::text[], e.patterns),
  enabled = coalesce(%(enabled)s, e.enabled),
  ordering = coalesce(%(ordering)s, e.ordering),
  filter = case when 'filter' = any (%(given)s::text[]) then %(filter)s::jsonb else e.filter end,
  rate_limit = case when 'rate_limit' = any (%(given)s::text[]) then %(rate_limit)s else e.rate_limit end,
  retry = case when 'retry' = any (%(given)s::text[]) then %(retry)s::jsonb else e.retry end,
  header_names = case when 'headers' = any (%(given)s::text[]) then %(header_names)s::text[] else e.header_names end,
  headers = case when 'headers' = any (%(given)s::text[]) then %(headers)s else e.headers end,
  updated_at = scheduled_actions_now()
where e.id = %(id)s
  and (%(team_id)s::text is null or e.team_id = %(team_id)s)
returning e.id
