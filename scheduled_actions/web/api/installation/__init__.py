"""What is installed and what it did, over HTTP."""
