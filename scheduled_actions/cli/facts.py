"""`facts`: say what is so of a thing, and look at what was said."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import local, one_line, pretty_json, print_fields, print_json, print_table, shown
from scheduled_actions.cli.parameters import WholeNumber, as_json_option, json_document
from scheduled_actions.cli.project import Project, caller, pass_project
from scheduled_actions.core.pages import page_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scheduled_actions.cli.parameters import Command

_NONE_YET = "no facts yet: `scheduled-actions facts report invoice 42 state '\"approved\"'` reports one"


@click.group()
def facts() -> None:
    """Say what is so of a thing, for the conditions of actions; look at what was said.

    A thing has a type and an id, as the application calls them: `invoice 42`.
    """


def _of_a_fact(command: Command) -> Command:
    """Give a command the arguments and the option that name a fact."""
    team = click.option("--team", "team_id", metavar="TEAM", help="The tenant it belongs to.")
    arguments: list[Callable[[Any], Any]] = [
        click.argument(name, metavar=metavar)
        for name, metavar in (("target_type", "TYPE"), ("target_id", "ID"), ("name", "NAME"))
    ]
    for one in reversed([*arguments, team]):
        command = one(command)
    return command


@facts.command()
@_of_a_fact
@click.argument("value", type=json_document, metavar="JSON")
@as_json_option
@pass_project
def report(
    project: Project,
    /,
    *,
    target_type: str,
    target_id: str,
    name: str,
    value: Any,  # noqa: ANN401 - any JSON
    team_id: str | None,
    as_json: bool,
) -> None:
    """Say that NAME of the thing TYPE ID is JSON: '"approved"', 42, true; @FILE reads a file, - standard input.

    What waits for it is due at once. The same value again changes nothing.
    """
    reported = project.open_without_handlers().facts.report(
        {"type": target_type, "id": target_id}, name, value, team_id=team_id, by=caller()
    )
    if as_json:
        print_json(reported._asdict())
        return
    woken = ": what waits for it is due now" if reported.awaited else ""
    click.echo(f"reported{woken}" if reported.changed else "it was so already")


@facts.command("list")
@click.option("--target-type", metavar="TYPE", help="Of things of this type.")
@click.option("--target-id", metavar="ID", help="Of things of this id.")
@click.option("--name", metavar="NAME", help="Of this name.")
@click.option("--team", "team_id", metavar="TEAM", help="Of this team only.")
@click.option("--limit", type=WholeNumber(1, 100), default=100, show_default=True, help="At most so many.")
@click.option("--cursor", metavar="ID", help="Go on after this one: next_cursor of the page before.")
@as_json_option
@pass_project
def list_(project: Project, /, *, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:  # noqa: ANN401 - of Facts.find
    """List the newest facts that match every filter given."""
    facts = project.open_without_handlers().facts
    found, next_cursor = page_of(lambda most: facts.find(**filters, limit=most, cursor=cursor), limit)
    if as_json:
        print_json({"facts": [asdict(fact) for fact in found], "next_cursor": next_cursor})
        return
    if not found:
        is_narrowed = cursor is not None or any(value is not None for value in filters.values())
        click.echo("no fact matches" if is_narrowed else _NONE_YET)
        return
    print_table(
        ("THING", "NAME", "VALUE", "SINCE", "BY", "TEAM"),
        [
            (
                f"{fact.target_type} {fact.target_id}",
                fact.name,
                one_line(pretty_json(fact.value).replace("\n", " "), longest=60),
                local(fact.changed_at),
                fact.reported_by or "",
                fact.team_id or "",
            )
            for fact in found
        ],
    )
    if next_cursor:
        click.echo(f"\nthere are more: --cursor {next_cursor}")


@facts.command()
@_of_a_fact
@as_json_option
@pass_project
def show(
    project: Project, /, *, target_type: str, target_id: str, name: str, team_id: str | None, as_json: bool
) -> None:
    """Show what NAME of the thing TYPE ID is, and what it was."""
    target = {"type": target_type, "id": target_id}
    runtime = project.open_without_handlers()
    fact = runtime.facts.get(target, name, team_id=team_id)
    changes = runtime.facts.history(target, name, team_id=team_id)
    if as_json:
        print_json(asdict(fact) | {"history": [change._asdict() for change in changes]})
        return
    fields = asdict(fact)
    print_fields({key: pretty_json(value) if key == "value" else shown(key, value) for key, value in fields.items()})
    click.echo("\nhistory")
    for change in changes:
        value = "(removed)" if change.is_removal else pretty_json(change.value).replace("\n", " ") or "null"
        by = f" by {change.reported_by}" if change.reported_by else ""
        click.echo(f"  {local(change.changed_at)}  {one_line(value, longest=80)}{one_line(by)}")


@facts.command()
@_of_a_fact
@as_json_option
@pass_project
def delete(
    project: Project, /, *, target_type: str, target_id: str, name: str, team_id: str | None, as_json: bool
) -> None:
    """Forget NAME of the thing TYPE ID; its history stays."""
    project.open_without_handlers().facts.delete(
        {"type": target_type, "id": target_id}, name, team_id=team_id, by=caller()
    )
    if as_json:
        print_json({"deleted": name})
    else:
        click.echo("forgotten")
