"""The functions that application code calls, on the process's own runtime."""
