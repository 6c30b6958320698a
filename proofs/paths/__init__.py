"""Which modules a payload and a ping pass."""
