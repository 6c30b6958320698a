"""The commands that set deadlines and see them through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduled_actions.cli.deadlines.output import on_its_clock, tell
from scheduled_actions.cli.output import counted
from scheduled_actions.cli.parameters import as_json_option, duration, instant, json_document, one_of
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.cli.schedules.output import in_its_zone, of_a_schedule
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from scheduled_actions.deadlines.model import Deadline

Command = TypeVar("Command", bound="Callable[..., Any]")


def _of_a_deadline(command: Command) -> Command:
    """Give a command the argument REF and the options `--team`, `--note` and `--json`."""
    note = click.option("--note", metavar="TEXT", help="Why; kept in its history.")
    return of_a_schedule(note(as_json_option(pass_project(command))))  # type: ignore[return-value]  # what the options make of a command is one


def _words_or_object(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return the words given, or the object where they are one."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        return json_text.decode(text, name="the value")
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None


def _level(text: str) -> Any:  # noqa: ANN401 - any JSON
    """Return a level written `2 days after: cfo@example.org, ceo@example.org`, or as an object."""
    given = _words_or_object(text)
    if not isinstance(given, str):
        return given
    offset, colon, to = given.rpartition(": ")
    if not colon or not to.strip():
        message = f'{given!r} is no level: write "2 days after: cfo@example.org", or a JSON object'
        raise click.BadParameter(message)
    return {"offset": offset.strip(), "to": [one.strip() for one in to.split(",")]}


#: What an edit can take back to nothing, by the names of the options.
_RESETTABLE = {
    "reminder": "reminders",
    "escalate": "escalation",
    "action": "auto_actions",
    "to": "recipients",
    "calendar": "calendar",
    "metadata": "metadata",
}

_OPTIONS = (
    click.option("--to", "recipients", multiple=True, metavar="WHO", help="Who is responsible; repeatable."),
    click.option(
        "--reminder",
        "reminders",
        type=_words_or_object,
        multiple=True,
        metavar="WHEN",
        help='"60 days before", or a JSON object: {"offset": "7 days before", "repeat": "daily"}; repeatable.',
    ),
    click.option(
        "--escalate",
        "escalation",
        type=_level,
        multiple=True,
        metavar="LEVEL",
        help='"2 days after: cfo@example.org", or a JSON object; repeatable.',
    ),
    click.option("--rounds", type=int, metavar="N", help="How often the ladder is climbed. [default: 1]"),
    click.option("--every", metavar="RULE", help="From one round to the next. [default: daily]"),
    click.option(
        "--action",
        "auto_actions",
        type=json_document,
        multiple=True,
        metavar="JSON",
        help='{"offset": "30 days before", "action_type": "approval:start", "payload": {}}; repeatable.',
    ),
    click.option("--recurrence", metavar="RULE", help="Each occurrence is a deadline of its own."),
    click.option("--timezone", metavar="ZONE", help="On whose wall clock days are counted. [default: UTC]"),
    click.option("--calendar", type=json_document, metavar="JSON", help='{"holidays": "US", "hours": {…}, "then": …}.'),
    click.option("--metadata", type=json_document, metavar="JSON", help="Your own notes, a JSON object."),
)


def _definition_options(command: Command) -> Command:
    """Give a command the options that say what happens before and after the due instant, and to whom."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _definition(given: dict[str, Any], rounds: int | None, every: str | None) -> dict[str, Any]:
    """Return the options as `set_deadline` names them."""
    arguments = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    if rounds is not None or every is not None:
        if not arguments["escalation"]:
            message = "--rounds and --every are said of a ladder: give its levels with them, by --escalate"
            raise click.UsageError(message)
        arguments["escalation"] = {"levels": arguments["escalation"], "rounds": rounds, "every": every}
    return arguments


@click.command("set")
@click.argument("target", nargs=2, metavar="TYPE ID")
@click.option("--due", "at", type=instant, metavar="ISO", help="Without an offset on the deadline's own clock.")
@click.option("--in", "delay", type=duration, metavar="DURATION", help="Due from now: P30D, 24h.")
@_definition_options
@click.option("--name", metavar="NAME", help="One unresolved of a team has it: asking again brings it up to date.")
@click.option("--team", "team_id", metavar="TEAM", help="The tenant it belongs to.")
@as_json_option
@pass_project
def set_(
    project: Project, /, *, target: tuple[str, str], at: datetime | None, delay: timedelta | None, rounds: int | None,
    every: str | None, as_json: bool, **given: Any,  # noqa: ANN401 - the options above
) -> None:  # fmt: skip
    """Set a deadline about TYPE ID, with all that happens before and after it.

    Asking for the same --name again changes nothing; asking for something else brings that one up to date.
    """
    arguments = _definition(given, rounds, every) | {
        "target": {"type": target[0], "id": target[1]},
        "due_at": one_of(at, delay),
        "created_by": caller(),
    }
    with handlers_aside():
        deadline, is_new = project.open().deadlines.set(arguments)
    tell(
        deadline,
        f"{'set' if is_new else 'is as asked for'}: due {on_its_clock(deadline.due_at, deadline)}",
        as_json=as_json,
    )


@click.command()
@_definition_options
@click.option("--reset", type=click.Choice(list(_RESETTABLE)), multiple=True, help="Back to nothing; repeatable.")
@_of_a_deadline
def edit(
    project: Project, /, reference: str, *, team_id: str | None, note: str | None, as_json: bool, rounds: int | None,
    every: str | None, reset: tuple[str, ...], **given: Any,  # noqa: ANN401 - the options above
) -> None:  # fmt: skip
    """Change what is given of the deadline REF, and of those that follow it in its series; the rest stays.

    Each list that is given replaces the one that was there. What was sent stays sent; `deadlines move` gives it another
    due instant. A rule changes what comes after the last one that was made.
    """
    arguments = _definition(given, rounds, every)
    changes = {name: value for name, value in arguments.items() if value not in (None, [])}
    changes |= dict.fromkeys((_RESETTABLE[name] for name in reset), None)
    if not changes:
        message = "nothing to change: give --reminder, --escalate, --action, --to or another option; --help lists them"
        raise click.UsageError(message)
    with handlers_aside():
        deadline = project.open().deadlines.update(reference, **changes, note=note, by=caller(), team_id=team_id)
    tell(deadline, "changed", as_json=as_json)


@click.command()
@click.option("--at", type=instant, metavar="ISO", help="When it was done. [default: now]")
@_of_a_deadline
def complete(
    project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool, at: datetime | None
) -> None:
    """Complete the deadline REF: once this returns, nothing of it begins to be sent."""
    deadlines = project.open_without_handlers().deadlines
    if at is not None:
        at = in_its_zone(at, deadlines.get(reference, team_id=team_id).timezone)
    deadline = deadlines.complete(reference, at=at, note=note, by=caller(), team_id=team_id)
    late = f"{counted(deadline.days_late, 'day')} late" if deadline.days_late else "on time"
    tell(deadline, f"completed {late}", as_json=as_json)


@click.command()
@click.option("--due", "at", type=instant, metavar="ISO", help="Without an offset on the deadline's own clock.")
@click.option("--in", "delay", type=duration, metavar="DURATION", help="Due from now: P30D, 24h.")
@click.option("--again/--not-again", default=None, help="Plan again what was sent. [default: where it was missed]")
@_of_a_deadline
def move(
    project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool, at: datetime | None,
    delay: timedelta | None, again: bool | None,
) -> None:  # fmt: skip
    """Give the deadline REF another due instant; what is still to come is planned anew."""
    due_at = one_of(at, delay)
    if due_at is None:
        message = "say when: --due ISO or --in DURATION"
        raise click.UsageError(message)
    deadlines = project.open_without_handlers().deadlines
    deadline = deadlines.move(reference, due_at, again=again, note=note, by=caller(), team_id=team_id)
    tell(deadline, f"moved: due {on_its_clock(deadline.due_at, deadline)}", as_json=as_json)


@click.command()
@click.option("--series", is_flag=True, help="Those that follow it, too; none is made any more.")
@_of_a_deadline
def cancel(
    project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool, series: bool
) -> None:
    """Cancel the deadline REF: it need not be met."""
    deadlines = project.open_without_handlers().deadlines
    deadline = deadlines.cancel(reference, reason=note, series=series, by=caller(), team_id=team_id)
    tell(deadline, "cancelled", as_json=as_json)


@click.command()
@_of_a_deadline
def pause(project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool) -> None:
    """Let the clock of the deadline REF stand still: nothing of it comes until it is resumed."""
    deadlines = project.open_without_handlers().deadlines
    tell(deadlines.pause(reference, note=note, by=caller(), team_id=team_id), "stands still", as_json=as_json)


@click.command()
@_of_a_deadline
def resume(project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool) -> None:
    """Let the clock of the deadline REF go on, with as much working time ahead as when it was paused."""
    deadline = project.open_without_handlers().deadlines.resume(reference, note=note, by=caller(), team_id=team_id)
    tell(deadline, f"goes on: due {on_its_clock(deadline.due_at, deadline)}", as_json=as_json)


@click.command()
@click.option("--until", "at", type=instant, metavar="ISO", help="Without an offset on the deadline's own clock.")
@click.option("--for", "delay", type=duration, metavar="DURATION", help="From now: P3D, 24h.")
@_of_a_deadline
def acknowledge(
    project: Project, reference: str, *, team_id: str | None, note: str | None, as_json: bool, at: datetime | None,
    delay: timedelta | None,
) -> None:  # fmt: skip
    """Silence the nagging of the deadline REF until then, or until it is resolved or moved: somebody works on it."""
    deadlines = project.open_without_handlers().deadlines
    deadline = deadlines.acknowledge(reference, until=one_of(at, delay), note=note, by=caller(), team_id=team_id)
    tell(deadline, f"nags no more{_until(deadline)}", as_json=as_json)


@click.command()
@_of_a_deadline
@click.argument("recipients", nargs=-1, required=True, metavar="WHO...")
def reassign(
    project: Project,
    reference: str,
    *,
    team_id: str | None,
    note: str | None,
    as_json: bool,
    recipients: tuple[str, ...],
) -> None:
    """Make WHO responsible for the deadline REF: what is still to come goes to them."""
    with handlers_aside():
        deadline = project.open().deadlines.reassign(
            reference, list(recipients), note=note, by=caller(), team_id=team_id
        )
    tell(deadline, f"goes to {', '.join(recipients)}", as_json=as_json)


def _until(deadline: Deadline) -> str:
    until = deadline.acknowledged_until
    return "" if until is None else f" until {on_its_clock(until, deadline)}"
