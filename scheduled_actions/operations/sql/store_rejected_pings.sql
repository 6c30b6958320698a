-- The rejected pings are added to the count of the day; a day after the first of them, counting restarts.
insert into scheduled_action_settings as s (name, value)
values (
  'refused_pings',
  jsonb_build_object('wrong', %(wrong)s::bigint, 'without', %(without)s::bigint, 'callers', %(callers)s::jsonb,
    'since', scheduled_actions_now())
)
on conflict (name) do update set
  value = case
    when (s.value ->> 'since')::timestamptz < scheduled_actions_now() - interval '1 day' then excluded.value
    else excluded.value || jsonb_build_object(
      'wrong', (s.value ->> 'wrong')::bigint + (excluded.value ->> 'wrong')::bigint,
      'without', (s.value ->> 'without')::bigint + (excluded.value ->> 'without')::bigint,
      'since', s.value -> 'since')
  end,
  updated_at = excluded.updated_at
