"""`explain`: explain why an action has not run, or how it ended."""
