"""The overview, the ticks and the simulation."""
