"""What is decided about schedules: what a caller asks for, and which occurrence comes next."""
