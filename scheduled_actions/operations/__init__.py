"""Operations: explain, doctor, simulation, recent activity, heartbeat, tokens."""
