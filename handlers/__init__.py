"""The project's handlers: one module per subject, found by `registry_build.py`."""
