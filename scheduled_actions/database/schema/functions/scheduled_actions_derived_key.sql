-- Returns the dedup key of a payload that names an entity; null for any other payload. Written in SQL, so that the planner
-- inlines it: most payloads do not name an entity.
create or replace function scheduled_actions_derived_key(payload jsonb, scheduled_at timestamptz) returns text
  language sql stable parallel safe
  as $$
    select case when jsonb_typeof(payload -> 'entity_id') <> 'null'
      then scheduled_actions_entity_key(payload, scheduled_at) end
  $$;
