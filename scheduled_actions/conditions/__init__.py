"""Conditions of actions: the model, facts, named queries and checks outside the database."""
