"""Render notifications from the project's templates or from the packaged templates."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.errors.families import error_class
from scheduled_actions.core.log import log
from scheduled_actions.notifications.rules.reminder import Message, Severity, one_line

if TYPE_CHECKING:
    from jinja2 import Environment


#: The project's folder of templates.
FOLDER = "templates"
_OURS = Path(__file__).parents[1] / "templates"
_SUBJECT = "Subject:"


@error_class
class TemplateBroken(ScheduledActionsError):
    """A template of the project cannot be rendered; the packaged template is used instead."""

    message = f"{FOLDER}/{{name}}: {{problem}}"
    name: str
    problem: str


def render_reminder(severity: Severity, values: Mapping[str, Any], *, project: Path | None = None) -> Message:
    """Render a notification of a deadline.

    For an urgent reminder, the templates are the first of these that exist: `reminder-urgent.txt` and `.html` in the
    project's folder `templates/`, `reminder.txt` and `.html` there, and the packaged templates. The same applies to
    other severities, and to the kinds `escalation` and `missed`. The first line of the `.txt` output must be
    `Subject: …`. In HTML, every value is escaped. If a template of the project is invalid, the error is logged, and the
    packaged template is used.

    Args:
        severity: Selects the template, and is passed to it with the values.
        values: The result of `Reminder.values`; `kind` selects the template.
        project: The project directory; None: the packaged templates.
    """
    kind = str(values.get("kind", "reminder"))
    return _rendered((f"{kind}-{severity}", kind), {**values, "severity": severity}, project)


def render_digest(notices: Sequence[Mapping[str, Any]], values: Mapping[str, Any], *, project: Path | None) -> Message:
    """Render a message that combines several notifications.

    Args:
        notices: Each with `subject`, `text` and `severity`, the most urgent first.
        values: Further values of the template: `recipient` and `urgent`, the number of urgent notifications.
        project: The project directory; None: the packaged templates.
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
    # HTML is taken only from the folder of the text template, so that text and HTML do not differ.
    html = f"{name}.html"
    return Message(subject, text, _render(environment, html, values) if (folder / html).is_file() else None)


def _render(environment: Environment, name: str, values: Mapping[str, Any]) -> str:
    try:
        return environment.get_template(name).render(values)
    except Exception as error:  # noqa: BLE001 - the project's templates can raise anything
        # The message of the exception is left out: it may contain a value.
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
    """Return a Jinja environment that searches a folder for templates, and then the packaged templates.

    The packaged templates can also be loaded as `ours/NAME`.
    """
    from jinja2 import ChoiceLoader, FileSystemLoader, PrefixLoader, StrictUndefined  # noqa: PLC0415 - loaded on first use
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - loaded on first use

    ours = FileSystemLoader(_OURS)
    return ImmutableSandboxedEnvironment(
        loader=ChoiceLoader([FileSystemLoader(folder), PrefixLoader({"ours": ours}), ours]),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
