"""What is decided about a tick: what it may start, how teams take turns, what is counted."""
