"""The documentation, and what draws its images."""
