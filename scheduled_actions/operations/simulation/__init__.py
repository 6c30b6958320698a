"""`simulate`: what will run, hour by hour, and whether ticks can carry it."""
