"""`deadlines`: create, show and change deadlines, and record their outcomes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

import scheduled_actions as client
from scheduled_actions.cli.definitions import DEADLINE_RESETS, deadline_arguments, deadline_options
from scheduled_actions.cli.group import LazyGroup
from scheduled_actions.cli.output import (
    answer,
    as_document,
    field_text,
    label,
    one_line,
    print_fields,
    print_page,
    print_section,
    print_table,
    printed_as_json,
    zoned,
)
from scheduled_actions.cli.parameters import (
    apply_resets,
    duration_option,
    instant_option,
    json_option,
    local_instant_option,
    one_of,
    page_options,
    reference_options,
    target_option,
    team_option,
    with_options,
)
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.core.messages import counted
from scheduled_actions.core.pages import read_page
from scheduled_actions.deadlines.model import Deadline

if TYPE_CHECKING:
    from scheduled_actions.deadlines.changes import SetOutcome
    from scheduled_actions.deadlines.reading import TimelineEntry

#: Columns that `show` prints on other lines, or not at all.
_PRINTED_ELSEWHERE = {
    "stages", "history", "status", "due_at", "target_type", "target_id", "recipients", "revision", "anchor_at",
}  # fmt: skip
_change_options = with_options(
    reference_options,
    click.option("--reason", metavar="TEXT", help="Reason, stored in the history."),
    json_option,
)


@click.group(cls=LazyGroup, lazy_commands={})
def deadlines() -> None:
    """Create, show and change deadlines, and record their outcomes.

    REF is the name or the id of a deadline. Names are unique per team: give --team if the deadline belongs to a team.
    """


@deadlines.command("list", short_help="List deadlines.")
@click.option("--status", type=click.Choice(["open", "missed", "completed", "cancelled"]), help="Only this status.")
@click.option(
    "--overdue",
    "is_overdue",
    is_flag=True,
    help="Only unresolved deadlines that are not paused and whose due time has passed.",
)
@team_option
@click.option("--user", "user_id", metavar="USER", help="Only deadlines with this recipient.")
@target_option
@click.option("--name", metavar="NAME", help="Only deadlines with this name.")
@local_instant_option(
    "--from", "due_from", help="Only deadlines due at or after this time; without an offset, local time."
)
@local_instant_option("--to", "due_to", help="Only deadlines due before this time.")
@page_options
@json_option
@pass_project
def list_(project: Project, /, *, limit: int, **filters: Any) -> None:  # noqa: ANN401 - of list_deadlines
    """List the newest deadlines that match every filter; times are in the time zone of each deadline."""
    project.open_without_handlers()
    found, next_cursor = read_page(lambda most: client.list_deadlines(**filters, limit=most), limit)
    print_page(
        {"deadlines": [_document(one) for one in found], "next_cursor": next_cursor},
        found,
        {
            "DEADLINE": label,
            "ABOUT": lambda one: f"{one.target_type} {one.target_id}",
            "STATUS": _status,
            "DUE": lambda one: zoned(one.due_at, one),
            "NEXT": _next_stage,
        },
        empty="no deadline matches"
        if any(filters.values())
        else (
            "no deadlines yet: `scheduled-actions deadlines create TYPE ID --due ISO --recipient ADDRESS "
            "--reminder '7 days before'` creates one"
        ),
    )


@deadlines.command(short_help="Show a deadline with its notices, sent and planned.")
@reference_options
@json_option
@pass_project
def show(project: Project, /, reference: str, *, team_id: str | None) -> None:
    """Show the deadline REF: its columns, the timeline of its stages, its notices and its history."""
    from scheduled_actions.deadlines import reading  # noqa: PLC0415 - help needs no database driver

    runtime = project.open_without_handlers()
    deadline = runtime.deadlines.get(reference, team_id=team_id)
    steps, notices = reading.timeline(runtime.database, deadline), reading.notices(runtime.database, deadline)[::-1]
    document = _document(deadline)
    names = ("at", "stage", "occurrence", "state", "note", "action_id")
    timeline = [{name: getattr(step, name) for name in names} for step in steps]
    if printed_as_json(document | {"timeline": timeline, "notices": [one._asdict() for one in notices]}):
        return
    print_fields(
        {
            "deadline": label(deadline),
            "about": f"{deadline.target_type} {deadline.target_id}",
            "status": _completion_text(deadline)
            if deadline.status == "completed" and deadline.days_late is not None
            else _status(deadline),
            "due": zoned(deadline.due_at, deadline),
            "recipients": _text(list(deadline.recipients)),
        }
        | {name: field_text(name, value) for name, value in document.items() if name not in _PRINTED_ELSEWHERE}
    )
    print_section("timeline", [_timeline_line(step, deadline) for step in steps])
    if notices:
        click.echo("\nnotices")
        print_table(
            ("AT", "STAGE", "TO", "CHANNEL", "SUBJECT", "MESSAGE ID OR PROBLEM"),
            [
                (
                    zoned(notice.sent_at, deadline),
                    notice.stage,
                    notice.recipient or "",
                    one_line(f"{notice.channel} {notice.address}", longest=80),
                    one_line(notice.subject, longest=60),
                    one_line(notice.problem or notice.message_id or "", longest=120),
                )
                for notice in notices
            ],
        )
    print_section("history", map(_history_line, deadline.history))


@deadlines.command(short_help="Create or update a deadline by name.")
@click.argument("target_type", metavar="TYPE")
@click.argument("target_id", metavar="ID")
@instant_option("--due", "at", help="Due time; without an offset, in --timezone. A day means its last second.")
@duration_option("--in", "delay", help="Due after this delay: P30D, 24h.")
@click.option(
    "--name",
    metavar="NAME",
    help="Name, unique among the unresolved deadlines of a team; an existing name updates that deadline.",
)
@click.option("--team", "team_id", metavar="TEAM", help="Team that owns the deadline.")
@deadline_options
@json_option
@pass_project
def create(
    project: Project,
    /,
    target_type: str,
    target_id: str,
    *,
    at: str | None,
    delay: timedelta | None,
    **options: Any,  # noqa: ANN401 - of `deadline_options`
) -> None:
    """Create a deadline for the entity TYPE ID, or update the unresolved deadline with this --name.

    Repeating the same command with --name and --due changes nothing.
    """
    arguments = deadline_arguments(options) | {
        "target": {"type": target_type, "id": target_id},
        "due_at": one_of(at, delay, "--due and --in"),
        "created_by": caller(),
    }
    with handlers_aside():
        deadline, outcome = project.open().deadlines.set(arguments)
    _report(deadline, f"{_set_text(deadline, outcome)}: due {zoned(deadline.due_at, deadline)}")


@deadlines.command(short_help="Change reminders, escalation, actions, recipients or rule.")
@deadline_options
@click.option(
    "--reset",
    type=click.Choice(list(DEADLINE_RESETS)),
    multiple=True,
    help="Remove the values of this option; repeatable.",
)
@_change_options
@pass_project
def update(
    project: Project,
    /,
    reference: str,
    *,
    team_id: str | None,
    reason: str | None,
    reset: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - of `deadline_options`
) -> None:
    """Change the deadline REF and the later deadlines of its series; omitted options keep their values.

    The values of a repeatable option replace all previous values. Notices that were sent are not sent again. A new rule
    applies after the last existing deadline of the series. `deadlines move` changes the due time. The defaults below
    are those of new deadlines.
    """
    changes = apply_resets(
        {name: value for name, value in deadline_arguments(options).items() if value not in (None, [])},
        reset,
        DEADLINE_RESETS,
    )
    if not changes:
        raise click.UsageError(
            "nothing to change: give --reminder, --escalate, --action, --recipient or another option; --help lists them"
        )
    with handlers_aside():
        deadline = project.open().deadlines.update(reference, **changes, reason=reason, by=caller(), team_id=team_id)
    _report(deadline, "changed")


@deadlines.command(short_help="Complete a deadline.")
@instant_option(
    "--at",
    help="Time of completion; without an offset, in the deadline's time zone. [default: now]",
)
@_change_options
@pass_project
def complete(project: Project, /, reference: str, *, at: str | None, **change: Any) -> None:  # noqa: ANN401 - of `_change_options`
    """Complete the deadline REF: no further reminder, escalation or action starts."""
    project.open_without_handlers()
    deadline = client.complete_deadline(reference, at=at, by=caller(), **change)
    _report(deadline, _completion_text(deadline))


@deadlines.command(short_help="Change the due time of a deadline.")
@instant_option(
    "--due", "at", help="Due time; without an offset, in the deadline's time zone. A day means its last second."
)
@duration_option("--in", "delay", help="Due after this delay: P30D, 24h.")
@click.option(
    "--resend/--no-resend",
    default=None,
    help="Repeat notices and actions whose new time is in the future. [default: only if the deadline was missed]",
)
@_change_options
@pass_project
def move(project: Project, /, reference: str, *, at: str | None, delay: timedelta | None, **change: Any) -> None:  # noqa: ANN401 - the options above
    """Change the due time of the deadline REF; its future reminders, escalation and actions are planned again."""
    due_at = one_of(at, delay, "--due and --in")
    if due_at is None:
        raise click.UsageError("the new due time is required: give --due ISO or --in DURATION")
    project.open_without_handlers()
    deadline = client.move_deadline(reference, due_at, by=caller(), **change)
    _report(deadline, f"moved: due {zoned(deadline.due_at, deadline)}")


@deadlines.command(short_help="Cancel a deadline, or its series.")
@click.option("--series", is_flag=True, help="Also cancel the later deadlines of the series, and end the series.")
@_change_options
@pass_project
def cancel(project: Project, /, reference: str, **change: Any) -> None:  # noqa: ANN401 - the options above
    """Cancel the deadline REF: no further reminder, escalation or action starts."""
    project.open_without_handlers()
    _report(client.cancel_deadline(reference, by=caller(), **change), "cancelled")


@deadlines.command(short_help="Pause a deadline.")
@_change_options
@pass_project
def pause(project: Project, /, reference: str, **change: Any) -> None:  # noqa: ANN401 - of `_change_options`
    """Pause the deadline REF: no reminder, escalation or action starts until the deadline is resumed."""
    project.open_without_handlers()
    _report(client.pause_deadline(reference, by=caller(), **change), "paused")


@deadlines.command(short_help="Resume a deadline with its remaining working time.")
@_change_options
@pass_project
def resume(project: Project, /, reference: str, **change: Any) -> None:  # noqa: ANN401 - of `_change_options`
    """Resume the deadline REF with as much working time left as when it was paused."""
    project.open_without_handlers()
    deadline = client.resume_deadline(reference, by=caller(), **change)
    _report(deadline, f"resumed: due {zoned(deadline.due_at, deadline)}")


@deadlines.command(short_help="Mute the repeated reminders of a deadline.")
@instant_option("--until", "at", help="End of the mute; without an offset, in the deadline's time zone.")
@duration_option("--for", "delay", help="Mute for this long: P3D, 24h.")
@_change_options
@pass_project
def acknowledge(
    project: Project,
    /,
    reference: str,
    *,
    at: str | None,
    delay: timedelta | None,
    **change: Any,  # noqa: ANN401 - of `_change_options`
) -> None:
    """Mute the repeated reminders of the deadline REF.

    The mute ends at the given time, or when the deadline is completed, cancelled, moved or reassigned. Escalation
    continues, except for levels that stop when acknowledged.
    """
    until = one_of(at, delay, "--until and --for")
    project.open_without_handlers()
    deadline = client.acknowledge_deadline(reference, until=until, by=caller(), **change)
    muted_until = zoned(deadline.acknowledged_until, deadline)
    _report(deadline, f"reminders muted{f' until {muted_until}' if muted_until else ''}")


@deadlines.command(short_help="Change the recipients of a deadline.")
@_change_options
@click.argument("recipients", nargs=-1, required=True, metavar="WHO...")
@pass_project
def reassign(project: Project, /, reference: str, *, recipients: tuple[str, ...], **change: Any) -> None:  # noqa: ANN401 - of `_change_options`
    """Replace the recipients of the deadline REF with WHO. If its reminders are muted, the mute ends."""
    with handlers_aside():
        project.open()
        deadline = client.reassign_deadline(reference, list(recipients), by=caller(), **change)
    _report(deadline, f"reassigned to {', '.join(recipients)}")


def _timeline_line(step: TimelineEntry, deadline: Deadline) -> str:
    occurrence = f" ({step.occurrence})" if step.occurrence > 1 else ""
    stage = deadline.stage(step.stage)
    condition = "" if stage is None or stage.condition is None else f"if {json.dumps(stage.condition)}"
    text = step.note or condition
    note = f"  {one_line(text, longest=100)}" if text else ""
    at = zoned(step.at, deadline) or " " * len(zoned(deadline.due_at, deadline))
    return f"{at}  {step.state:<9}  {step.stage}{occurrence}{note}"


def _history_line(entry: Mapping[str, Any]) -> str:
    details = ", ".join(f"{name} {_text(value)}" for name, value in entry.items() if name not in {"what", "at"})
    line = f"{entry['at'].replace('T', ' ')[:19]}Z  {entry['what']}"
    return f"{line}  {one_line(details, longest=160)}" if details else line


def _document(deadline: Deadline) -> dict[str, Any]:
    """Return a deadline as a document for `--json`: its columns without the definition."""
    columns = {name: value for name, value in as_document(deadline).items() if name != "definition"}
    return columns | {"stages": [stage.as_json() for stage in deadline.stages]}


def _report(deadline: Deadline, text: str) -> None:
    """Print the change of a deadline."""
    answer(_document(deadline), f"{label(deadline)} {text}")


def _set_text(deadline: Deadline, outcome: SetOutcome) -> str:
    """Return what `create` did: `changed (recipients, stages)`."""
    match outcome:
        case "changed":
            names = ", ".join(deadline.history[-1].get("changes", ()))
            return f"changed ({names})" if names else "changed"
        case "unchanged":
            return "is up to date"
        case "created":
            return "created"


def _completion_text(deadline: Deadline) -> str:
    """Return whether a deadline was completed on time, or how many days late, as text."""
    return f"completed {counted(deadline.days_late, 'day')} late" if deadline.days_late else "completed on time"


def _status(deadline: Deadline) -> str:
    if deadline.problem is not None:
        return f"broken: {deadline.problem}"
    return "paused" if deadline.paused_at is not None else deadline.status


def _next_stage(deadline: Deadline) -> str:
    planned = (one for one in deadline.stages if one.is_planned and one.kind not in {"due", "renewal"})
    following = min(planned, key=lambda one: (one.at, one.key), default=None)
    return "" if following is None else f"{zoned(following.at, deadline)} {following.key}"


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
