"""The management API, and its description for programs and for people."""
