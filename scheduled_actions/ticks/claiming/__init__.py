"""Claim actions: scan them in order, share claims between teams, and evaluate conditions."""
