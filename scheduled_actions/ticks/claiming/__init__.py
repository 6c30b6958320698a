"""What a tick claims: in which order, for which teams, and whether its conditions hold."""
