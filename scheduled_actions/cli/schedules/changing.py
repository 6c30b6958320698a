"""The commands that make and change schedules: `schedules create` and `schedules edit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduled_actions.cli.actions.condition_options import series_condition_options
from scheduled_actions.cli.parameters import (
    as_json_option,
    duration,
    instant,
    json_document,
    last_instant,
    one_of,
    skip_options,
)
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.cli.schedules.output import in_its_zone, of_a_schedule, tell, warn_of_the_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime, timedelta

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.schedules.model import Schedule

Command = TypeVar("Command", bound="Callable[..., Any]")

_PAYLOAD_HELP = "A JSON object, the same for every occurrence; @FILE reads a file, - standard input."
#: What an edit can take back to its default, by the names of the options.
_RESETTABLE = {
    "at": "scheduled_at",
    "catch-up-age": "catch_up_seconds",
    "catch-up-limit": "catch_up_limit",
    "condition": "condition",
    "grace": "misfire_grace_seconds",
    "jitter": "jitter_seconds",
    "lock-group": "lock_group",
    "max-attempts": "max_attempts",
    "metadata": "metadata",
    "name": "name",
    "on-failure": "on_failure",
    "on-success": "on_success",
    "pause-after": "pause_after_failures",
    "remaining": "remaining",
    "skip": "skip",
    "until": "until",
}

_OPTIONS = (
    click.option("--timezone", metavar="ZONE", help="IANA zone whose wall clock the rule follows. [default: UTC]"),
    click.option("--at", type=instant, metavar="ISO", help="The start; without an offset on the schedule's own clock."),
    click.option("--in", "delay", type=duration, metavar="DURATION", help="The start, from now: PT5M, 90s, 2h."),
    click.option(
        "--rolling/--fixed",
        "is_rolling",
        default=None,
        help="Count from the end of the run before, or take instants from the rule. [default: fixed]",
    ),
    click.option(
        "--misfire",
        type=click.Choice(["fire_once", "skip", "catch_up"]),
        help="What becomes of missed occurrences. [default: fire_once]",
    ),
    click.option("--grace", type=duration, metavar="DURATION", help="With skip: how late is missed. [default: 5m]"),
    click.option("--catch-up-limit", type=int, metavar="N", help="With catch_up: the latest so many. [default: 100]"),
    click.option(
        "--catch-up-age", type=duration, metavar="DURATION", help="With catch_up: how old they may be. [default: 7d]"
    ),
    click.option(
        "--overlap",
        type=click.Choice(["skip", "queue", "allow"]),
        help="What an occurrence does while the one before still runs. [default: skip]",
    ),
    click.option(
        "--pause-after", "pause_after_failures", type=int, metavar="N", help="Final failures in a row. [default: never]"
    ),
    skip_options,
    click.option("--jitter", type=duration, metavar="DURATION", help="Put each off by its own share of this."),
    click.option("--until", type=last_instant, metavar="ISO", help="No occurrence after it; a day counts whole."),
    click.option("--remaining", type=int, metavar="N", help="Executions until it ends."),
    click.option("--priority", type=int, metavar="N", help="The lower number goes first. [default: 0]"),
    click.option("--max-attempts", type=int, metavar="N", help="Of each occurrence. [default: the handler's]"),
    click.option("--lock-group", metavar="GROUP", help="Members of a group run one at a time, the oldest first."),
    click.option("--metadata", type=json_document, metavar="JSON", help="Your own notes, a JSON object."),
    series_condition_options,
)


def _definition_options(command: Command) -> Command:
    """Give a command the options that say how occurrences are planned and run."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("action_type", metavar="TYPE")
@click.argument("recurrence", metavar="RULE")
@click.option("--payload", type=json_document, default="{}", metavar="JSON", help=f"{_PAYLOAD_HELP} [default: {{}}]")
@click.option("--name", metavar="NAME", help="One of a team has it: asking again brings that one up to date.")
@click.option("--team", "team_id", metavar="TEAM", help="The tenant it belongs to.")
@_definition_options
@as_json_option
@pass_project
def create(
    project: Project,
    /,
    action_type: str,
    recurrence: str,
    *,
    payload: Any,  # noqa: ANN401 - any JSON
    as_json: bool,
    **given: Any,  # noqa: ANN401 - the options above
) -> None:
    """Make a schedule that runs TYPE by RULE, or bring the one of the same --name up to date.

    RULE is an interval ("daily", "every 10 minutes", PT10M), a cron expression, an RRULE, a business day ("last
    business day of the quarter") or custom:NAME; `scheduled-actions preview RULE` shows what it names. Asking for the
    same again changes nothing.
    """
    schedules = (runtime := project.open()).schedules
    with handlers_aside():
        schedule = schedules.schedule_recurring(
            action_type, payload, recurrence, created_by=caller(), **_arguments(given, zone=None)
        )
    _warn(runtime, schedule)
    tell(runtime, schedule, f"runs {action_type}", as_json=as_json)


@click.command()
@of_a_schedule
@click.option("--rule", "recurrence", metavar="RULE", help="Another rule.")
@click.option("--payload", type=json_document, metavar="JSON", help=_PAYLOAD_HELP)
@click.option("--name", metavar="NAME", help="Another name.")
@_definition_options
@click.option(
    "--reset",
    type=click.Choice(list(_RESETTABLE)),
    multiple=True,
    help="Back to its default; repeatable.",
)
@as_json_option
@pass_project
def edit(
    project: Project,
    /,
    reference: str,
    *,
    team_id: str | None,
    payload: Any,  # noqa: ANN401 - any JSON
    reset: tuple[str, ...],
    as_json: bool,
    **given: Any,  # noqa: ANN401 - the options above
) -> None:
    """Change what is given of the schedule REF; the rest stays.

    Another rule, zone, start, end or skip plans the waiting occurrence anew, in the same transaction. What is skipped
    is replaced as a whole. A schedule that has ended goes on if the change gives it a further occurrence.
    """
    both = [name for name in reset if _is_given(name, given)]
    if both:
        message = f"--{both[0]} and --reset {both[0]} exclude each other"
        raise click.UsageError(message)
    schedules = (runtime := project.open()).schedules
    zone = given["timezone"] or schedules.get(reference, team_id=team_id).timezone
    changes = _arguments(given, zone=zone)
    if payload is None and not changes and not reset:
        message = "nothing to change: give --rule, --payload, --timezone or another option; --help lists them"
        raise click.UsageError(message)
    changes |= dict.fromkeys((_RESETTABLE[name] for name in reset), None)
    with handlers_aside():
        schedule = schedules.update(reference, payload=payload, team_id=team_id, **changes)
    if "recurrence" in changes:
        _warn(runtime, schedule)
    warn_of_the_code(schedule)
    tell(runtime, schedule, "changed", as_json=as_json)


def _is_given(name: str, given: Mapping[str, Any]) -> bool:
    arguments = {"at": ("at", "delay"), "pause-after": ("pause_after_failures",)}.get(name, (name.replace("-", "_"),))
    return any(given[one] is not None for one in arguments)


def _arguments(given: dict[str, Any], *, zone: str | None) -> dict[str, Any]:
    """Return the options as `schedule_recurring_action` names them, without those that were not given.

    Args:
        given: By the names of the options.
        zone: In which times without an offset are read; None leaves that to whoever knows the schedule's.
    """
    at: datetime | None = given.pop("at")
    delay: timedelta | None = given.pop("delay")
    is_rolling: bool | None = given.pop("is_rolling")
    seconds = {
        "misfire_grace_seconds": given.pop("grace"),
        "catch_up_seconds": given.pop("catch_up_age"),
        "jitter_seconds": given.pop("jitter"),
    }
    until: datetime | None = given.pop("until")
    arguments = given | {
        "scheduled_at": one_of(_read_in(at, zone), delay),
        "until": _read_in(until, zone),
        "recurrence_type": None if is_rolling is None else "rolling" if is_rolling else "fixed",
        **{name: None if one is None else one.total_seconds() for name, one in seconds.items()},
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _read_in(moment: datetime | None, zone: str | None) -> datetime | None:
    return moment if moment is None or zone is None else in_its_zone(moment, zone)


def _warn(runtime: Runtime, schedule: Schedule) -> None:
    """Tell what people often get wrong with a rule like this one."""
    with handlers_aside():
        warnings = runtime.schedule_rules.rule_of(schedule).warnings
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
