"""Pure rules of a tick: which actions it may start, how many it claims, and how teams share its claims."""
