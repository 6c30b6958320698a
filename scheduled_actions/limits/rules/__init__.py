"""Pure decisions about limits."""
