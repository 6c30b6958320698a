"""`counts`, `limits` and `explain`: count actions, list limit keys, and explain why an action has not run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

import scheduled_actions as client
from scheduled_actions.cli.actions import NONE_YET
from scheduled_actions.cli.output import (
    ON_A_CHANGE,
    answer,
    as_document,
    coloured,
    field_text,
    local,
    one_line,
    print_fields,
    print_page,
    printed_as_json,
    stopping_early,
    table_lines,
    wants_json,
)
from scheduled_actions.cli.parameters import json_option, page_options, team_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.limits.rules.display import WAITING_MOST

if TYPE_CHECKING:
    from scheduled_actions.limits.service import LimitKey

_WATCH_SECONDS = 2


@dataclass(frozen=True, slots=True)
class CountsSample:
    """The counts of actions, and the lateness of their starts, at one moment."""

    counts: Mapping[str, int]
    #: Names of the counts that stopped at the maximum of 10,000.
    capped: Sequence[str]
    #: By action type, the number of measured actions, and the median, 95th percentile and maximum in seconds.
    lateness: Mapping[str, Mapping[str, float]]

    def as_json(self, *, with_lateness: bool) -> dict[str, Any]:
        """Return the document that `--json` prints, with `lateness` only if `with_lateness` is true."""
        document: dict[str, Any] = dict(self.counts)
        if self.capped:
            document["capped"] = self.capped
        if with_lateness:
            document["lateness"] = self.lateness
        return document

    def as_text(self, before: CountsSample | None = None) -> str:
        """Return a line for each count, with the change since the previous sample, and the lateness by type."""
        width = max(map(len, self.counts))
        lines = []
        for name, count in self.counts.items():
            change = count - before.counts.get(name, 0) if before else 0
            number = f"{count:,}{'+' if name in self.capped else ''}"
            label = (coloured(name) if count else name) + " " * (width - len(name))
            lines.append(f"{label}  {number:>10}{f'  {change:+,}' if change else ''}")
        if self.lateness:
            lines += ["", "seconds from due to start, in the last hour"]
            lines += table_lines(
                ("TYPE", "ACTIONS", "MEDIAN", "95 %", "LATEST"),
                [
                    (
                        action_type,
                        f"{stats['sample_count']:,}",
                        f"{stats['p50_seconds']:.2f}",
                        f"{stats['p95_seconds']:.2f}",
                        f"{stats['max_seconds']:.2f}",
                    )
                    for action_type, stats in self.lateness.items()
                ],
            )
        return "\n".join(lines)


@click.command()
@click.option(
    "--watch",
    "every_seconds",
    is_flag=False,
    flag_value=_WATCH_SECONDS,
    type=click.FloatRange(0.1, 86400),
    metavar="[SECONDS]",
    help=f"Repeat every {_WATCH_SECONDS} seconds, or every SECONDS, until Ctrl-C.",
)
@click.option("--exact", is_flag=True, help="Count beyond 10,000; reads the whole table.")
@click.option("--lateness", "with_lateness", is_flag=True, help="With --json: include how late actions started.")
@json_option
@pass_project
def counts(project: Project, *, every_seconds: float | None, exact: bool, with_lateness: bool) -> None:
    """Count actions by status; `due` counts the pending actions whose due time has passed.

    If there are any, `queued` counts the due actions that wait in the queue of a limit key, `paused` those that a pause
    holds back, and `for_executors` those that wait for a worker of their executor.

    Each count stops at 10,000, shown as 10,000+ and listed in `capped` with --json. The table below the counts shows
    how late actions started; it includes at most 5,000 completed and 5,000 failed actions of the last hour. With
    --watch, a terminal also shows the changes, and --json prints one line per sample.
    """
    management = project.open_without_handlers().action_operations

    def take_sample() -> CountsSample:
        found = management.exact_counts() if exact else management.counts()
        return CountsSample(
            counts={status.value: number for status, number in found.by_status.items()}
            | {"due": found.due}
            | {name: number for name in ("queued", "paused", "for_executors") if (number := getattr(found, name))},
            capped=found.capped,
            lateness={
                one.action_type: {name: value for name, value in one._asdict().items() if name != "action_type"}
                for one in (management.lateness() if with_lateness or not wants_json() else ())
            },
        )

    sample, before = take_sample(), None
    if every_seconds is None:
        text = sample.as_text() if any(sample.counts.values()) else NONE_YET
        answer(sample.as_json(with_lateness=with_lateness), text)
        return
    stopped = threading.Event()
    with stopping_early(stopped.set):
        while True:
            # `clear` does nothing unless the output is a terminal.
            if not printed_as_json(sample.as_json(with_lateness=with_lateness)):
                click.clear()
                click.echo(f"{local(datetime.now(UTC))}\n{sample.as_text(before)}\n")
            if stopped.wait(every_seconds):
                return
            before, sample = sample, take_sample()


@click.command()
@click.argument("action_id", metavar="ID")
@json_option
@pass_project
def explain(project: Project, action_id: str) -> None:
    """Explain why the action ID has not run, or how it ended.

    The explanation assumes that ticks use the settings and the registry of this project.
    """
    project.open_unbuilt()
    found = client.explain_action(action_id)
    if printed_as_json({"id": action_id, **as_document(found)}):
        return
    remedy = f"\n  {one_line(found.remedy)}" if found.remedy else ""
    click.echo(f"{found.code}: {one_line(found.sentence)}{remedy}")
    details = {name: field_text("", value) for name, value in found.details.items()}
    if found.code == "condition_not_met" and found.details["due_in_seconds"] is None:
        details["scheduled_at"] = ON_A_CHANGE
    if any(details.values()):
        click.echo()
        print_fields(details)


@click.group()
def limits() -> None:
    """List limit keys and the actions that wait in their queues."""


@limits.command("list")
@click.option("--prefix", metavar="TEXT", help="Only keys that begin with TEXT.")
@team_option
@page_options
@json_option
@pass_project
def list_limits(project: Project, /, **filters: Any) -> None:  # noqa: ANN401 - of LimitKeys.page
    """List the limit keys of queued and running actions, and of actions that started within the last hour."""
    page = project.open_without_handlers().limits.page(**filters)
    print_page(
        {"limits": [as_document(one) for one in page.limits], "next_cursor": page.next_cursor},
        page.limits,
        {
            "KEY": lambda one: one.limit_key,
            "TEAM": lambda one: "(all)" if one.across_teams else one.team_id or "",
            "PATTERN": lambda one: one.pattern or "none",
            "IN USE": _in_use,
            "RATE": lambda one: one.rate or "",
            "NEXT START": _next_start,
            "WAITING": lambda one: _waiting(one.waiting),
            "OLDEST DUE": lambda one: local(one.oldest_due_at),
        },
        empty="no key matches"
        if filters["prefix"] is not None or filters["team_id"] is not None
        else 'no limit keys in use: schedule an action with limit="api:acme" and a pattern such as [limits."api:*"]',
    )


def _in_use(key: LimitKey) -> str:
    used = "?" if key.in_use is None else str(key.in_use)
    return used if key.at_once is None else f"{used} of {key.at_once}"


def _next_start(key: LimitKey) -> str:
    return "paused" if key.is_paused else local(key.opens_at)


def _waiting(number: int) -> str:
    return f"{number:,}{'+' if number >= WAITING_MOST else ''}"
