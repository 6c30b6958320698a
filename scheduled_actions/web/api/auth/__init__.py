"""Who asks, and what each may."""
