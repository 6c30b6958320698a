"""Preview the templates of mails, and those of notifications with the values of a sample deadline."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from scheduled_actions.core.action import Action, ParentAction
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.notifications.channels import templates
from scheduled_actions.notifications.rules.reminder import SEVERITIES, Message, NoticeKind, Reminder

_SAMPLE = "License renewal"
_PERSON = "Ann"
_LEFT = timedelta(days=3)
#: The kinds of notifications whose sample is sent after its deadline.
_KINDS_AFTER: dict[str, NoticeKind] = {"escalation": "escalation", "missed": "missed"}


def names(project: Path) -> tuple[list[str], list[str]]:
    """Return the names of the templates of mails, and of those of notifications."""
    notices = templates.notice_templates(project)
    return [name for name in templates.mail_templates(project) if name not in notices], notices


def preview(
    name: str,
    *,
    project: Path,
    now: datetime,
    zone: ZoneInfo,
    data: object = None,
    parent: Action | None = None,
    subject: str | None = None,
) -> Message:
    """Render a template as it would be sent.

    Args:
        name: A template of a mail, `welcome` for `templates/welcome.txt`, or of a notification, `reminder-low`.
        project: The project directory.
        now: Aware: the current time of a sample notification, three days before its deadline.
        zone: The time zone of the times in a sample notification.
        data: The JSON object that the template reads as `data`; None: an empty one.
        parent: The action that the template of a mail reads as `parent`; None: none.
        subject: The subject of a mail; None: the one of the template.

    Raises:
        InvalidArgument: There is no such template, or `data` is not an object.
        TemplateBroken: The template has no subject, or cannot be rendered with these values.
    """
    if data is not None and not isinstance(data, dict):
        raise InvalidArgument("data", problem="must be a JSON object")
    mails, notices = names(project)
    if name in notices:
        return templates.render_notice(name, _sample(name, data or {}, now, zone), project=project)
    if name not in mails:
        expected = f"{templates.describe_mail_templates(mails)}; notifications: {', '.join(notices)}"
        raise InvalidArgument("template", name, expected)
    fields = ParentAction.__dataclass_fields__
    read = None if parent is None else ParentAction(**{field: getattr(parent, field) for field in fields})
    return templates.render_mail(name, {"data": data or {}, "parent": read}, project=project, subject=subject)


def _sample(name: str, data: Mapping[str, Any], now: datetime, zone: ZoneInfo) -> dict[str, Any]:
    """Return the values of a sample notification; one that is missed or escalated is overdue."""
    kind, _, severity = name.partition("-")
    if kind == "digest":
        notices = [
            {"subject": f"{_SAMPLE}: {one}", "text": "It is due in 3 days.", "severity": one} for one in SEVERITIES
        ]
        return {"notices": notices, "recipient": _PERSON, "urgent": 1}
    is_over = kind in _KINDS_AFTER
    now = now.replace(minute=0, second=0, microsecond=0)
    reminder = Reminder(
        name=_SAMPLE,
        due_at=now - _LEFT if is_over else now + _LEFT,
        now=now,
        kind=_KINDS_AFTER.get(kind, "reminder"),
        target={"type": "license", "id": "42"},
        next_reminder_at=None if is_over else now + timedelta(days=1),
        level=1 if kind == "escalation" else None,
        assignee="ann@example.org",
        data=data,
    )
    return {**reminder.values(zone, recipient=_PERSON), "severity": severity or SEVERITIES[0]}
