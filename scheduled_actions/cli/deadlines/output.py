"""What the commands of `deadlines` have in common: how a deadline is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import click

from scheduled_actions.cli.output import as_document, print_json

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.deadlines.model import Deadline


def label(deadline: Deadline) -> str:
    """Return what people call a deadline."""
    return str(deadline.id) if deadline.name is None else deadline.name


def on_its_clock(moment: datetime | None, deadline: Deadline) -> str:
    """Return an instant on the deadline's own wall clock, with its offset; nothing for None."""
    return "" if moment is None else moment.astimezone(ZoneInfo(deadline.timezone)).isoformat(" ", "seconds")


def document_of(deadline: Deadline) -> dict[str, Any]:
    """Return a deadline for programs: its columns."""
    document = as_document(deadline)
    del document["definition"]
    return document | {"stages": [stage.as_json() for stage in deadline.stages]}


def status_of(deadline: Deadline) -> str:
    """Return where a deadline stands, in a word; of a broken one also what of its row cannot be used."""
    if deadline.problem is not None:
        return f"broken: {deadline.problem}"
    return "paused" if deadline.paused_at is not None else deadline.status


def tell(deadline: Deadline, what: str, *, as_json: bool) -> None:
    """Say what became of a deadline."""
    if as_json:
        print_json(document_of(deadline))
    else:
        click.echo(f"{label(deadline)} {what}")
