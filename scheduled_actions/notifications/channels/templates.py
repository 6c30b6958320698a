"""Render notifications from the project's templates or from the packaged templates, and mails from the project's."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from scheduled_actions.core.errors import ScheduledActionsError
from scheduled_actions.core.errors.families import error_class
from scheduled_actions.core.log import log
from scheduled_actions.core.messages import listed
from scheduled_actions.notifications.rules.reminder import SEVERITIES, Message, NoticeKind, Severity, one_line

if TYPE_CHECKING:
    from jinja2 import Environment


#: The project's folder of templates.
FOLDER = "templates"
_OURS = Path(__file__).parents[1] / "templates"
_SUBJECT = "Subject:"
#: Of the files of templates.
_SUFFIXES = (".txt", ".html")
_KINDS = get_args(NoticeKind)
#: The names of all templates of notifications that a project can have.
_NOTICES = frozenset({*_KINDS, *(f"{kind}-{severity}" for kind, severity in product(_KINDS, SEVERITIES)), "digest"})


@error_class
class TemplateBroken(ScheduledActionsError):
    """A template of the project cannot be rendered: a notification uses the packaged one, a mail is not sent."""

    message = f"{FOLDER}/{{name}}: {{problem}}"
    name: str
    problem: str

    @property
    def details(self) -> str:
        """The message with that of the cause, which may contain values of the template: it must not be logged."""
        # The text of an error of Jinja has the source, too.
        reason = getattr(self.__cause__, "message", None) or str(self.__cause__ or "")
        return f"{self}: {' '.join(reason.split())}" if reason else str(self)


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


def mail_templates(project: Path) -> list[str]:
    """Return the names of the project's templates: `welcome` for `templates/welcome.txt`."""
    return sorted(file.stem for file in (project / FOLDER).glob("*.txt") if not file.name.startswith("_"))


def describe_mail_templates(known: Sequence[str]) -> str:
    """Return what is expected in place of an unknown name, for an error: `the name of a template: invoice, welcome`."""
    there = f": {listed(known, most=10)}" if known else f", but this project has no file {FOLDER}/NAME.txt"
    return f"the name of a template{there}"


def render_mail(name: str, values: Mapping[str, Any], *, project: Path, subject: str | None = None) -> Message:
    """Render a mail from `NAME.txt` in the project's folder `templates/` and, if it exists, `NAME.html`.

    Args:
        name: One of `mail_templates`.
        values: The values of the template.
        project: The project directory.
        subject: The subject; the template may then begin without `Subject: …`. None: the one of the template.

    Raises:
        TemplateBroken: The template was deleted, has no subject, or cannot be rendered with these values.
    """
    return _message(project / FOLDER, name, values, subject=subject)


def notice_templates(project: Path) -> list[str]:
    """Return the names of the templates of notifications: the packaged ones, and those that the project adds."""
    packaged = {file.stem for file in _OURS.glob("*.txt") if not file.name.startswith("_")}
    return sorted(packaged | (_NOTICES & set(mail_templates(project))))


def render_notice(name: str, values: Mapping[str, Any], *, project: Path) -> Message:
    """Render the template that a notification uses; unlike when it is sent, an invalid template of the project raises.

    Args:
        name: One of `notice_templates`.
        values: The values of the template.
        project: The project directory.

    Raises:
        TemplateBroken: The project's template has no subject, or cannot be rendered with these values.
    """
    names = (name, name.partition("-")[0])
    return _of_project(names, values, project) or _packaged(names, values)


def _rendered(names: Sequence[str], values: Mapping[str, Any], project: Path | None) -> Message:
    if project is not None:
        try:
            if found := _of_project(names, values, project):
                return found
        except TemplateBroken as error:
            log.warning("notice.template_broken template=%s problem=%s", error.name, error.problem)
    return _packaged(names, values)


def _of_project(names: Sequence[str], values: Mapping[str, Any], project: Path) -> Message | None:
    """Render the first of these templates that the project has; None if it has none of them."""
    name = next((name for name in names if (project / FOLDER / f"{name}.txt").is_file()), None)
    return None if name is None else _message(project / FOLDER, name, values)


def _packaged(names: Sequence[str], values: Mapping[str, Any]) -> Message:
    return _message(_OURS, next(name for name in names if (_OURS / f"{name}.txt").is_file()), values)


def _message(folder: Path, name: str, values: Mapping[str, Any], *, subject: str | None = None) -> Message:
    environment = _environment(folder)
    subject, text = _parts(f"{name}.txt", _render(environment, f"{name}.txt", values), subject=subject)
    # HTML is taken only from the folder of the text template, so that text and HTML do not differ.
    html = f"{name}.html"
    return Message(subject, text, _render(environment, html, values) if (folder / html).is_file() else None)


def _render(environment: Environment, name: str, values: Mapping[str, Any]) -> str:
    try:
        return environment.get_template(name).render(values)
    except Exception as error:
        # The message of the exception is left out: it may contain a value.
        raise TemplateBroken(name, f"{type(error).__name__}{_place(error, name)}") from error


def _place(error: Exception, name: str) -> str:
    """Return where a template failed: ` in line 3`, and the template's name if it is another one than `name`."""
    file, line = getattr(error, "filename", None), getattr(error, "lineno", None)
    if not isinstance(line, int):
        # Jinja maps the frames of compiled templates to the lines of their files.
        frames = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).suffix in _SUFFIXES]
        file, line = (frames[-1].filename, frames[-1].lineno) if frames else (None, None)
    if line is None:
        return ""
    other = "" if file is None or Path(file).name == name else f" of {Path(file).name}"
    return f" in line {line}{other}"


def _parts(name: str, text: str, *, subject: str | None) -> tuple[str, str]:
    """Split the output of a text template into subject and text; a given subject replaces that of the template."""
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith(_SUBJECT) and first.removeprefix(_SUBJECT).strip():
        return subject or one_line(first.removeprefix(_SUBJECT)), f"{rest.strip()}\n"
    if subject is None:
        raise TemplateBroken(name, f'its first line is not "{_SUBJECT} …"')
    return subject, f"{text.strip()}\n"


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
