-- The last of the next `examined` actions before the cursor; no row when there are not as many.
select a.id
from scheduled_actions a
where a.id < coalesce(%(before)s::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
order by a.id desc
offset %(examined)s - 1
limit 1
