"""What operators look at: explain, doctor, simulation, recent activity, heartbeat, tokens."""
