-- Returns the ids of the unresolved deadlines of a series whose occurrence is `since` or later.
select d.id
from scheduled_action_deadlines d
where d.series_id = %(series_id)s and d.occurrence_at >= %(since)s and d.status in ('open', 'missed')
order by d.id
