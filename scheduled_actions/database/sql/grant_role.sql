-- The role may use the access schema of a team (null: of all teams); returns its name.
select scheduled_actions_grant(%(kind)s, %(role)s, %(team_id)s)
