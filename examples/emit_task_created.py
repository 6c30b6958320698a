"""Emit an event when a task is created; the endpoints in scheduled_actions.toml receive it."""

from scheduled_actions import emit_event


def task_created(task_id: str, title: str, team_id: str) -> None:
    emit_event("task:created", entity_id=task_id, data={"title": title}, team_id=team_id)
