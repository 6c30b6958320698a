"""The commands that keep an installation going."""
