"""Lateness of 1,000 actions at random instants with a minute cron and lingering ticks: `python -m proofs.on_time`."""
