"""Actions that Celery workers run while a worker and the broker are killed."""
