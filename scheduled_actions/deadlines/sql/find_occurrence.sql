-- Returns the id of the deadline for an occurrence of a series.
select d.id
from scheduled_action_deadlines d
where d.series_id = %(series_id)s and d.occurrence_at = %(occurrence_at)s
