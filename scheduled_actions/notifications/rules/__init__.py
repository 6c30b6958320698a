"""Notices: whom they reach and when, how urgent they are, and what they say. Nothing here knows the present moment."""
