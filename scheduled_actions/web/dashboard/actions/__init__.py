"""The dashboard pages for actions."""
