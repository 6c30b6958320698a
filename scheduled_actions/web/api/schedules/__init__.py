"""Routes and models of schedules."""
