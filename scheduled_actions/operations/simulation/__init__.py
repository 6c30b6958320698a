"""`simulate`: forecast the actions that run hour by hour, and compare the load with the capacity of ticks."""
