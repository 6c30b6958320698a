"""The commands about actions."""
