"""Client: the functions that the package exports; they use the runtime of the process."""
