"""Tokens over HTTP."""
