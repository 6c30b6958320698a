-- Returns the topic of a fact; a name that ends in ":*" is the topic of all names with that prefix.
create or replace function scheduled_actions_fact_topic(team_id text, target_type text, target_id text, name text) returns uuid
  language sql stable parallel safe
  as $$ select md5(jsonb_build_array(coalesce(team_id, ''), target_type, target_id, name)::text)::uuid $$;
