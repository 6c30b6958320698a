"""The commands about the project on this machine."""
