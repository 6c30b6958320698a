"""The pages about deadlines."""
