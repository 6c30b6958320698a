-- Returns the event of one changed row as an element of schedule_actions; null if the verb is not watched, or if no watched
-- column has changed.
create or replace function scheduled_actions_row_event(watch jsonb, before jsonb, after jsonb, at timestamptz, table_name text)
  returns jsonb
  language plpgsql stable
  as $$
  declare
    verb constant text := case when before is null then 'created' when after is null then 'deleted' else 'updated' end;
    whole constant jsonb := coalesce(after, before);
    row_key constant jsonb := scheduled_actions_row_key(whole, watch -> 'id');
    entity_id constant text := row_key #>> '{}';
    team_id constant text := nullif(whole ->> (watch ->> 'team'), '');
    changed jsonb;
    data jsonb;
    payload jsonb;
  begin
    if not watch -> 'on' ? verb then
      return null;
    end if;
    if entity_id is null or not whole ? coalesce(watch ->> 'team', watch -> 'id' ->> 0) then
      raise exception 'a column that the watch needs is missing: watch the table again';
    end if;
    if watch ? 'columns' then
      before := scheduled_actions_select_keys(before, (watch -> 'id') || (watch -> 'columns'));
      after := scheduled_actions_select_keys(after, (watch -> 'id') || (watch -> 'columns'));
    end if;
    data := jsonb_build_object('record', case verb when 'deleted' then before else after end);
    if verb = 'updated' then
      select jsonb_agg(n.name order by n.name) into changed
      from jsonb_each(after) n (name, value) where n.value is distinct from before -> n.name;
      if changed is null then
        return null;
      end if;
      data := data || jsonb_build_object('changed', changed, 'previous', scheduled_actions_select_keys(before, changed));
    end if;
    -- A row that is too large for a payload is sent without its columns, so that no event is lost because of its size.
    if pg_column_size(data) > 65536 and octet_length(data::text) > 250000 then
      data := jsonb_build_object('record', scheduled_actions_select_keys(whole, watch -> 'id'), 'is_cut', true)
        || case when changed is null then '{}' else jsonb_build_object('changed', changed) end;
    end if;
    payload := jsonb_build_object(
      'event', (watch ->> 'entity') || ':' || verb, 'entity_type', watch -> 'entity', 'entity_id', entity_id, 'data', data);
    return jsonb_build_object(
      'action_type', 'webhook:send', 'payload', payload, 'team_id', team_id, 'scheduled_at', at,
      'dedup_window', watch -> 'dedup_window',
      -- A derived key would contain the instant, and would therefore not merge the events of two changes.
      'dedup_key', case when (watch ->> 'dedup_window')::double precision > 0
        then 'watch:' || md5(jsonb_build_array(watch -> 'entity', entity_id)::text) end,
      'target', jsonb_build_object('type', watch -> 'entity', 'id', entity_id),
      'created_by', 'watch:' || table_name);
  end
  $$;
