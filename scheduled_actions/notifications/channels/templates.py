"""The words of notices: templates of the project, and ours where it has none."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.notifications.rules.message import Message, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from scheduled_actions.notifications.rules.severity import Severity

log = logging.getLogger("scheduled_actions")

#: The project's folder of templates.
FOLDER = "templates"
_OURS = Path(__file__).parents[1] / "templates"
_SUBJECT = "Subject:"


class TemplateBroken(ScheduledActionsError):
    """A template of the project cannot be rendered: the words are ours instead."""

    code = "template_broken"

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = problem
        super().__init__(f"{FOLDER}/{name}: {problem}")


def render_reminder(severity: Severity, values: Mapping[str, Any], *, project: Path | None = None) -> Message:
    """Return the words of a notice about a deadline.

    `reminder-urgent.txt` and `reminder-urgent.html`, else `reminder.txt` and `reminder.html`, in the project's folder
    `templates/`; else ours. For the kinds `escalation` and `missed` likewise. The text's first line is `Subject: …`.
    In HTML every value is escaped. One that cannot be rendered is logged, and ours tell instead: a deadline is not
    missed for a typo.

    Args:
        severity: How urgent it is; given to the template with the values.
        values: As `Reminder.values` returns them; `kind` chooses the template.
        project: The project directory; None: ours.
    """
    kind = str(values.get("kind", "reminder"))
    return _rendered((f"{kind}-{severity}", kind), {**values, "severity": severity}, project)


def render_digest(notices: Sequence[Mapping[str, Any]], values: Mapping[str, Any], *, project: Path | None) -> Message:
    """Return the words of one message that tells several notices.

    Args:
        notices: Each with `subject`, `text` and `severity`, the most urgent first.
        values: More for the template: `recipient`.
        project: The project directory; None: ours.
    """
    return _rendered(("digest",), {**values, "notices": notices}, project)


def _rendered(names: Sequence[str], values: Mapping[str, Any], project: Path | None) -> Message:
    if project is not None:
        found = next((name for name in names if (project / FOLDER / f"{name}.txt").is_file()), None)
        if found is not None:
            try:
                return _message(project / FOLDER, found, values)
            except TemplateBroken as error:
                log.warning("notice.template_broken template=%s problem=%s", error.name, error.problem)
    name = next(name for name in names if (_OURS / f"{name}.txt").is_file())
    return _message(_OURS, name, values)


def _message(folder: Path, name: str, values: Mapping[str, Any]) -> Message:
    environment = _environment(folder)
    subject, text = _parts(f"{name}.txt", _render(environment, f"{name}.txt", values))
    # The HTML of whoever wrote the text: two sets of words in one mail would be worse than none.
    html = f"{name}.html"
    return Message(subject, text, _render(environment, html, values) if (folder / html).is_file() else None)


def _render(environment: Environment, name: str, values: Mapping[str, Any]) -> str:
    try:
        return environment.get_template(name).render(values)
    except Exception as error:  # noqa: BLE001 - the project's words may fail in any way
        # Not the message: it may repeat a value.
        line = getattr(error, "lineno", None)
        place = f" in line {line}" if isinstance(line, int) else ""
        raise TemplateBroken(name, f"{type(error).__name__}{place}") from None


def _parts(name: str, text: str) -> tuple[str, str]:
    first, _, rest = text.lstrip().partition("\n")
    if not first.startswith(_SUBJECT) or not first.removeprefix(_SUBJECT).strip():
        raise TemplateBroken(name, f'its first line is not "{_SUBJECT} …"')
    return one_line(first.removeprefix(_SUBJECT)), f"{rest.strip()}\n"


@functools.cache
def _environment(folder: Path) -> Environment:
    """Return an environment that reads this folder, and ours for what its templates extend."""
    from jinja2 import ChoiceLoader, FileSystemLoader, PrefixLoader, StrictUndefined  # noqa: PLC0415 - with the first notice
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - with the first notice

    ours = FileSystemLoader(_OURS)
    return ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([FileSystemLoader(folder), PrefixLoader({"ours": ours}), ours]),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
