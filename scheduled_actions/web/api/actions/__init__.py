"""Routes and models of actions."""
