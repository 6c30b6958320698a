-- The role may use the door of a team (null: of none in particular); answers the door's schema.
select scheduled_actions_grant(%(kind)s, %(role)s, %(team_id)s)
