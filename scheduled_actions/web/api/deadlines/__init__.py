"""Routes and models of deadlines."""
