-- The schemas that other roles use offer what our functions and tables are now.
select scheduled_actions_open_door(d.team) from scheduled_actions_doors() d
