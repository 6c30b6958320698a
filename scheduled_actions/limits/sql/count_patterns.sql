-- Returns the slots in use and the queued actions of each pattern, each counted to `most`; the pattern is null for keys
-- that match none. Actions count at their first key.
-- The boundaries of the patterns divide the keys into ranges; all keys of a range have the same pattern. So each range is
-- read from the index of the queues, up to `most` entries, however many keys there are.
with boundaries (start) as (
  select '' collate "C"
  union
  select r.prefix collate "C" from scheduled_action_limit_rules r
  union
  -- The first key after that of an exact pattern; no key contains a control character.
  select (r.prefix || chr(1)) collate "C"
  from scheduled_action_limit_rules r
  where r.is_exact
  union
  -- The first key after a prefix: its last character is replaced with the next one, without surrogates.
  select (left(r.prefix, -1) || chr(case l.last when 55295 then 57344 else l.last + 1 end)) collate "C"
  from scheduled_action_limit_rules r
  cross join lateral (select ascii(right(r.prefix, 1)) as last) l
  where not r.is_exact and l.last between 1 and 1114110
),
ranges as materialized (
  -- The last range ends with the last character of Unicode.
  select b.start, coalesce(lead(b.start) over (order by b.start), chr(1114111)) as stop, p.pattern
  from boundaries b
  left join lateral scheduled_actions_limit(b.start, '') p on true
),
slots as materialized (
  select s.limit_key collate "C" as limit_key, count(*) as number
  from (select l.limit_key from scheduled_action_limit_slots l limit %(most)s) s
  group by s.limit_key
)
select
  r.pattern, sum(u.number)::bigint, least(sum(q.number), %(most)s)::bigint
from ranges r
cross join lateral (
  select coalesce(sum(s.number), 0) as number
  from slots s
  where s.limit_key >= r.start and s.limit_key < r.stop
) u
cross join lateral (
  select count(*) as number
  from (
    select
    from scheduled_actions a
    where a.status = 'pending'
      and a.parked_by = 'limit'
      and a.limit_keys[1] >= r.start
      and a.limit_keys[1] < r.stop
    -- Makes the planner read no more entries of the index than are counted.
    order by a.limit_keys[1], coalesce(a.team_id, ''), a.priority, a.scheduled_at, a.id
    limit %(most)s
  ) n
) q
group by r.pattern
order by r.pattern
