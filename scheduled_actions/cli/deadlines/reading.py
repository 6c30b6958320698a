"""The commands that look at deadlines: `deadlines list` and `deadlines show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.deadlines.output import document_of, label, on_its_clock, status_of
from scheduled_actions.cli.output import counted, one_line, print_fields, print_json, print_table, shown
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, local_instant
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.cli.schedules.output import of_a_schedule
from scheduled_actions.core.pages import page_of

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.deadlines.model import Deadline
    from scheduled_actions.deadlines.store import Noticed

_NONE_YET = (
    "no deadlines yet: `scheduled-actions deadlines set TYPE ID --due ISO --to ADDRESS --reminder '7 days before'`"
)
#: What a person sees in other lines, or does not need.
_TOLD_ELSEWHERE = {
    "stages", "history", "status", "due_at", "target_type", "target_id", "recipients", "revision", "anchor_at",
}  # fmt: skip


@click.command("list")
@click.option("--status", type=click.Choice(["open", "missed", "completed", "cancelled"]), help="Where they stand.")
@click.option("--overdue", "is_overdue", is_flag=True, help="Only those unresolved after their due instant.")
@click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")
@click.option("--target", nargs=2, metavar="TYPE ID", help="About this alone.")
@click.option("--name", metavar="NAME", help="Of this name only.")
@click.option("--from", "due_from", type=local_instant, metavar="ISO", help="Due then or later.")
@click.option("--to", "due_to", type=local_instant, metavar="ISO", help="Due before then.")
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="ID", help="Go on after this one: next_cursor of the page before.")
@as_json_option
@pass_project
def list_(
    project: Project,
    /,
    *,
    target: tuple[str, str] | None,
    limit: int,
    as_json: bool,
    **filters: Any,  # noqa: ANN401 - of Deadlines.find
) -> None:
    """List the newest deadlines that match every filter given; due instants are on each deadline's own wall clock."""
    about = None if not target else {"type": target[0], "id": target[1]}
    deadlines = project.open_without_handlers().deadlines
    found, next_cursor = page_of(lambda most: deadlines.find(**filters, target=about, limit=most), limit)
    if as_json:
        print_json({"deadlines": [document_of(one) for one in found], "next_cursor": next_cursor})
        return
    if not found:
        click.echo("no deadline matches" if target or any(filters.values()) else _NONE_YET)
        return
    print_table(
        ("DEADLINE", "ABOUT", "STATUS", "DUE", "NEXT"),
        [
            (
                label(one),
                f"{one.target_type} {one.target_id}",
                status_of(one),
                on_its_clock(one.due_at, one),
                _next(one),
            )
            for one in found
        ],
    )
    if next_cursor:
        click.echo(f"\nthere are more: --cursor {next_cursor}")


@click.command()
@of_a_schedule
@as_json_option
@pass_project
def show(project: Project, reference: str, *, team_id: str | None, as_json: bool) -> None:
    """Show the deadline REF, and its ladder as a timeline: what was sent, and what will be."""
    deadlines = project.open_without_handlers().deadlines
    deadline = deadlines.get(reference, team_id=team_id)
    steps, notices = deadlines.timeline(deadline), deadlines.notices(deadline)[::-1]
    if as_json:
        names = ("at", "stage", "occurrence", "state", "note", "action_id")
        timeline = [{name: getattr(step, name) for name in names} for step in steps]
        print_json(document_of(deadline) | {"timeline": timeline, "notices": [one._asdict() for one in notices]})
        return
    print_fields(
        {
            "deadline": label(deadline),
            "about": f"{deadline.target_type} {deadline.target_id}",
            "status": _status(deadline),
            "due": on_its_clock(deadline.due_at, deadline),
        }
        | {"recipients": _fact(list(deadline.recipients))}
        | {name: shown(name, value) for name, value in document_of(deadline).items() if name not in _TOLD_ELSEWHERE}
    )
    click.echo("\ntimeline")
    for step in steps:
        again = f" ({step.occurrence})" if step.occurrence > 1 else ""
        note = f"  {one_line(step.note, longest=100)}" if step.note else ""
        click.echo(f"  {_when(step.at, deadline)}  {step.state:<9}  {one_line(step.stage)}{again}{note}")
    if notices:
        click.echo("\nnotices")
        headings = ("AT", "STAGE", "TO", "THROUGH", "SUBJECT", "CALLED THERE, OR WHY IT WAS NOT TAKEN")
        print_table(headings, [_line_of(notice, deadline) for notice in notices])
    click.echo("\nhistory")
    for entry in deadline.history:
        facts = ", ".join(f"{name} {_fact(value)}" for name, value in entry.items() if name not in {"what", "at"})
        click.echo(f"  {shown_at(entry['at'])}  {entry['what']}{f'  {one_line(facts, longest=160)}' if facts else ''}")


def _line_of(notice: Noticed, deadline: Deadline) -> tuple[str, ...]:
    return (
        on_its_clock(notice.sent_at, deadline),
        one_line(notice.stage),
        one_line(notice.recipient or ""),
        one_line(f"{notice.channel} {notice.address}", longest=80),
        one_line(notice.subject, longest=60),
        one_line(notice.problem or notice.message_id or "", longest=120),
    )


def _status(deadline: Deadline) -> str:
    if deadline.status != "completed" or deadline.days_late is None:
        return status_of(deadline)
    late = f"{counted(deadline.days_late, 'day')} late" if deadline.days_late else "on time"
    return f"completed {late}"


def _next(deadline: Deadline) -> str:
    ahead = [one for one in deadline.stages if one.is_planned and one.kind not in {"due", "renewal"}]
    following = min(ahead, key=lambda one: (one.at, one.key), default=None)
    return "" if following is None else f"{on_its_clock(following.at, deadline)} {following.key}"


def _when(moment: datetime | None, deadline: Deadline) -> str:
    return on_its_clock(moment, deadline) or " " * len(on_its_clock(deadline.due_at, deadline))


def shown_at(text: str) -> str:
    """Return an instant of the history to the second."""
    return text.replace("T", " ")[:19] + "Z"


def _fact(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
