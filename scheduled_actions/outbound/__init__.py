"""What goes out over HTTP: posts and reads that end on time, reach only what they may, and wait in lanes."""
