-- Returns an attempt of a delivery from an entry of its history, with the error message of the handler.
create or replace function webhook_attempt(entry jsonb) returns jsonb
  language sql stable
  as $$
    select jsonb_build_object(
      'attempt', entry -> 'attempt',
      'at', entry -> 'started_at',
      'status', said.parts[1]::integer,
      'duration_ms', round(extract(epoch from said.ended_at - said.started_at) * 1000),
      'answer', case when said.parts[1] not like '3%' then said.parts[2] end,
      'error', entry -> 'error')
    from (
      select
        regexp_match(entry ->> 'error', '^(?:DeliveryFailed: )?endpoint "[^"]*" answered (\d{3})(?:: (.*))?$') as parts,
        case when isfinite(e.started_at) then e.started_at end as started_at,
        case when isfinite(e.ended_at) then e.ended_at end as ended_at
      from (
        select
          scheduled_actions_stored_instant(entry ->> 'started_at') as started_at,
          scheduled_actions_stored_instant(entry ->> 'ended_at') as ended_at
      ) e
    ) said
  $$;
