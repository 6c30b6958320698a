-- Only actions `a` of a priority `p` after the position of a scan.
and (a.scheduled_at, a.id) > (
  case when p.priority = %(after_priority)s::smallint then %(after_at)s::timestamptz else '-infinity' end,
  case when p.priority = %(after_priority)s::smallint then %(after_id)s::uuid
    else '00000000-0000-0000-0000-000000000000' end
)
