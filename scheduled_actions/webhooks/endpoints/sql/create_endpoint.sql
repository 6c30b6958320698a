-- The endpoint is stored for the team (or for none). No row if the team has reached its maximum number of endpoints.
insert into webhook_endpoints (
  team_id, url, description, patterns, filter, enabled, ordering, rate_limit, retry, header_names, headers, secret, created_by
)
select
  %(team_id)s, %(url)s, %(description)s, %(patterns)s::text[], %(filter)s::jsonb, %(enabled)s, %(ordering)s,
  %(rate_limit)s, %(retry)s::jsonb, %(header_names)s::text[], %(headers)s, %(secret)s, %(created_by)s
where (select count(*) from webhook_endpoints e where e.team_id is not distinct from %(team_id)s) < %(most)s
returning id
