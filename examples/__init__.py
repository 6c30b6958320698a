"""Examples: one task per module, in as few lines as it needs; README.md lists them, and tests/examples runs them."""
