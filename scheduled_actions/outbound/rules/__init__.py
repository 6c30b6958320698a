"""What is decided about outgoing requests: which addresses are allowed, and what has to wait."""
