"""Notices: whom they reach, when, and through which channel."""
