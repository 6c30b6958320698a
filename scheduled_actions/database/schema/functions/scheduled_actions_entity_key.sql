-- Returns the dedup key of a payload that names an entity. It consists of the entity, the event, the endpoint and, for a
-- future action, the instant.
create or replace function scheduled_actions_entity_key(payload jsonb, scheduled_at timestamptz) returns text
  language plpgsql stable parallel safe
  as $$
  declare
    key text := 'entity:' || jsonb_build_array(
      payload -> 'entity_type', payload -> 'entity_id', payload -> 'event', payload -> 'endpoint',
      case when scheduled_at > scheduled_actions_now() then extract(epoch from scheduled_at) end)::text;
  begin
    return case when octet_length(key) <= 400 then key else 'entity-md5:' || md5(key) end;
  end
  $$;
