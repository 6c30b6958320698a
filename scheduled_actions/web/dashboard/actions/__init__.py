"""The pages about actions."""
