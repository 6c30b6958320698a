"""Client: the functions that the package exports, on the runtime of the process."""
