"""What is shown by doing it, and takes too much to be a test: each by one command of the Makefile."""
