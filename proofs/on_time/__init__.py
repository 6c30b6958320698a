"""A minute cron, ticks that linger, and a thousand actions at random instants: `python -m proofs.on_time`."""
