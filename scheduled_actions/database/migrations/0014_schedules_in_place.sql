-- Every occurrence moves its schedule on. Without an index over what it writes, and with room beside the row, that is a
-- write of one page instead of one page and three indexes. An action that a claim meets names its schedule, so nothing
-- looks for the pointer itself any more; code of the release before does, and finds it a little later.

drop index scheduled_action_schedules_next;

alter table scheduled_action_schedules set (fillfactor = 50);
