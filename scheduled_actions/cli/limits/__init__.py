"""`pauses`: what ticks do not start although it is due."""
