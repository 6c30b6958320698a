"""Pure rules of a tick: what it may start, how much it claims, and how teams share its claims."""
