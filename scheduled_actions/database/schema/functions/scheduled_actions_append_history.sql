-- Returns the history with one more entry: the first 5 and the last 45 are kept, and consecutive snoozes (or condition
-- checks) are merged into one entry with their count.
create or replace function scheduled_actions_append_history(history jsonb, entry jsonb) returns jsonb
  language sql immutable parallel safe
  as $$
    select case
      when entry is null then history
      when entry ->> 'outcome' in ('snoozed', 'waited') and history -> -1 ->> 'outcome' = entry ->> 'outcome'
        then (history - (-1)) || jsonb_build_array(
          entry || jsonb_build_object(
            'started_at', history -> -1 -> 'started_at',
            'count', greatest(1, scheduled_actions_stored_count(history -> -1 -> 'count')) + 1))
      when jsonb_array_length(history) >= 50 then (history - 5) || jsonb_build_array(entry)
      else history || jsonb_build_array(entry)
    end
  $$;
