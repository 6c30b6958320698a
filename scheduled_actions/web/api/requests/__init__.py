"""Requests and answers: bodies, validation, problems, ETags, idempotency keys."""
