"""What is decided about deadlines: when stages come, what a pause moves, what still holds. Pure."""
