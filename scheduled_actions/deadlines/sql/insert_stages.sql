-- The stages of new deadlines, which have no actions yet, have their actions.
insert into scheduled_actions
-- include: deadlines/planned_actions
