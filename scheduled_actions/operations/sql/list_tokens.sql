-- Returns the newest tokens before the cursor.
select
  -- include: operations/token_columns
from scheduled_action_tokens t
where (%(before)s::uuid is null or t.id < %(before)s)
  and (%(team_id)s::text is null or t.team_id = %(team_id)s)
order by t.id desc
limit %(limit)s
