"""What is decided about an action without looking anywhere: the row of a new one, and what an outcome means."""
