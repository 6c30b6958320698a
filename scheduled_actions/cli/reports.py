"""`events` and `facts`: emit events, once or for every change to a table, and record facts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.actions.model import NewAction
from scheduled_actions.cli.output import (
    answer,
    field_text,
    local,
    one_line,
    pretty_json,
    print_page,
    print_record,
)
from scheduled_actions.cli.parameters import (
    Seconds,
    json_document,
    json_option,
    page_options,
    team_option,
    with_options,
)
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.conditions.model import FactChange
from scheduled_actions.core.errors import UnknownEndpoint
from scheduled_actions.core.messages import counted
from scheduled_actions.core.pages import read_page

if TYPE_CHECKING:
    from scheduled_actions.webhooks.watches import Watch

# Imports are inside functions, so that help needs no database driver.
# ruff: noqa: PLC0415


_fact_arguments = with_options(
    click.argument("target_type", metavar="TYPE"),
    click.argument("target_id", metavar="ID"),
    click.argument("name", metavar="NAME"),
    click.option("--team", "team_id", metavar="TEAM", help="Team that owns the fact."),
)


def _names(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    """Parse a list such as `a,b`; return None without a value.

    Raises:
        BadParameter: The list contains no name.
    """
    if given is None:
        return None
    names = tuple(one.strip() for one in given.split(",") if one.strip())
    if not names:
        raise click.BadParameter(f"{given!r} contains no name: write names separated by commas")
    return names


@click.group()
def events() -> None:
    """Emit events to webhooks, once or for every change to a table."""


@events.command(short_help="Emit an event.")
@click.argument("event", metavar="EVENT")
@click.option("--entity-id", required=True, metavar="ID", help="The entity that the event is about.")
@click.option(
    "--data",
    type=json_document,
    default="{}",
    metavar="JSON",
    help="Any JSON; @FILE reads a file, - reads standard input. [default: {}]",
)
@click.option("--team", "team_id", metavar="TEAM", help="Team that owns the event.")
@click.option(
    "--endpoint", metavar="NAME", help="Send the event only to this endpoint, regardless of its patterns and filter."
)
@click.option(
    "--dedup-window",
    type=Seconds(),
    metavar="SECONDS",
    help="How long equal events are merged; 0 disables merging. [default: the setting deduplication.window_seconds]",
)
@json_option
@pass_project
def emit(
    project: Project,
    *,
    event: str,
    entity_id: str,
    data: Any,  # noqa: ANN401 - any JSON
    team_id: str | None,
    endpoint: str | None,
    dedup_window: float | None,
) -> None:
    """Emit EVENT, such as task:created; the next tick sends it to the endpoints that accept its type, team and data."""
    from scheduled_actions.webhooks.sending import ACTION_TYPE, event_payload

    new = NewAction(
        action_type=ACTION_TYPE,
        payload=event_payload(event, entity_id=entity_id, data=data, endpoint=endpoint),
        team_id=team_id,
        dedup_window=dedup_window,
        created_by=caller(),
    )
    runtime = project.open()
    if endpoint is not None:
        found = runtime.endpoint_directory.lookup(endpoint)
        if found is None:
            raise UnknownEndpoint(endpoint)
        if not found.belongs_to(team_id):
            raise click.BadParameter(
                f"{endpoint!r} receives only events of team {found.team_id}: give --team {found.team_id}",
                param_hint="'--endpoint'",
            )
    with handlers_aside():
        scheduled = runtime.scheduler.schedule_action(new)
    answer(
        {"id": scheduled.id, "deduplicated": scheduled.deduplicated},
        f"{'merged into' if scheduled.deduplicated else 'emitted as'} {scheduled.id}",
    )


@events.command("watch", short_help="Emit an event for every change to a table.")
@click.argument("table", metavar="TABLE")
@click.option(
    "--entity",
    required=True,
    metavar="NAME",
    help="Entity type of the rows; events have the types NAME:created, NAME:updated and NAME:deleted.",
)
@click.option(
    "--id-column",
    "id_columns",
    callback=_names,
    metavar="COLUMN",
    help="Columns of the id, such as A,B. [default: the primary key]",
)
@click.option("--team-column", metavar="COLUMN", help="The column with the team of a row.")
@click.option(
    "--columns",
    callback=_names,
    metavar="A,B",
    help="Columns to watch, and to include in events. [default: all]",
)
@click.option(
    "--on",
    callback=_names,
    default="created,updated,deleted",
    show_default=True,
    metavar="VERBS",
    help="The changes that emit events.",
)
@click.option(
    "--dedup-window",
    type=Seconds(),
    default=0,
    metavar="SECONDS",
    help="How long equal events of an entity are merged; 0 disables merging. [default: 0]",
)
@json_option
@pass_project
def watch_(project: Project, /, **options: Any) -> None:  # noqa: ANN401 - the fields of a Watch
    """Emit NAME:created, NAME:updated and NAME:deleted for each row of TABLE that a statement changes.

    TABLE is written as in SQL, such as schema.table; a name with capital letters needs double quotes. Triggers emit the
    events in the transaction of the statement; a rollback removes the events. Watching the table again with the same
    --entity replaces the previous options.
    """
    from scheduled_actions.webhooks.watches import Watch, watch

    found = project.in_database(watch, Watch(**options))
    answer(asdict(found), f"watching {found.table}: {', '.join(f'{found.entity}:{verb}' for verb in found.on)}")


@events.command(short_help="Stop emitting events for a table.")
@click.argument("table", metavar="TABLE")
@click.option("--entity", metavar="NAME", help="Only the triggers of this entity. [default: all of the table]")
@json_option
@pass_project
def unwatch(project: Project, table: str, *, entity: str | None) -> None:
    """Drop the triggers that emit events for TABLE. Events that are already scheduled are still sent."""
    from scheduled_actions.webhooks import watches

    ended = project.in_database(watches.unwatch, table, entity=entity)
    answer({"unwatched": ended}, f"removed {counted(ended, 'trigger')}" if ended else "the table was not watched")


@events.command(short_help="List the tables whose changes emit events.")
@json_option
@pass_project
def watched(project: Project) -> None:
    """List the tables whose changes emit events, according to the database's catalog."""
    from scheduled_actions.webhooks import watches

    found = project.in_database(watches.watched)
    print_page(
        {"watched": [asdict(one) for one in found]},
        found,
        {
            "TABLE": lambda one: one.table,
            "ENTITY": lambda one: one.entity,
            "ON": lambda one: ",".join(one.on),
            "ID": lambda one: ",".join(one.id_columns or ()),
            "TEAM": lambda one: one.team_column or "",
            "COLUMNS": lambda one: "all" if one.columns is None else ",".join(one.columns),
            "NOTE": _watch_note,
        },
        empty="no table is watched: `scheduled-actions events watch TABLE --entity NAME` watches one",
    )


def _watch_note(watch: Watch) -> str:
    return "; ".join(
        [
            *([f"{', '.join(watch.missing)} is missing: watch the table again"] if watch.missing else []),
            *([] if watch.is_enabled else ["a trigger is disabled"]),
            *([f"merged for {watch.dedup_window:g} s"] if watch.dedup_window else []),
        ]
    )


@click.group()
def facts() -> None:
    """Record facts about an entity, for conditions to test.

    An entity has a type and an id of your choice, such as `invoice 42`.
    """


@facts.command("report", short_help="Set a fact about an entity.")
@_fact_arguments
@click.argument("value", type=json_document, metavar="JSON")
@json_option
@pass_project
def report_fact(
    project: Project,
    /,
    *,
    target_type: str,
    target_id: str,
    name: str,
    value: Any,  # noqa: ANN401 - any JSON
    team_id: str | None,
) -> None:
    """Set the fact NAME of the entity TYPE ID to JSON.

    JSON is any value, such as '"approved"', 42 or true; @FILE reads a file, - reads standard input.

    Actions that wait for the fact become due now if the value changes. Reporting the same value again changes nothing.
    """
    target = {"type": target_type, "id": target_id}
    reported = project.open_without_handlers().facts.report(target, name, value, team_id=team_id, by=caller())
    text = "recorded" if reported.changed else "unchanged: the fact already has this value"
    answer(reported._asdict(), f"{text}; actions that wait for the fact are due" if reported.has_waiters else text)


@facts.command("list")
@click.option("--target-type", metavar="TYPE", help="Only facts of entities of this type.")
@click.option("--target-id", metavar="ID", help="Only facts of entities with this id.")
@click.option("--name", metavar="NAME", help="Only facts with this name.")
@team_option
@page_options
@json_option
@pass_project
def list_facts(project: Project, /, *, limit: int, **filters: Any) -> None:  # noqa: ANN401 - of Facts.find
    """List the newest facts that match every filter."""
    service = project.open_without_handlers().facts
    found, next_cursor = read_page(lambda most: service.find(**filters, limit=most), limit)
    print_page(
        {"facts": [asdict(fact) for fact in found], "next_cursor": next_cursor},
        found,
        {
            "ENTITY": lambda fact: f"{fact.target_type} {fact.target_id}",
            "NAME": lambda fact: fact.name,
            "VALUE": lambda fact: one_line(pretty_json(fact.value).replace("\n", " "), longest=60),
            "SINCE": lambda fact: local(fact.changed_at),
            "BY": lambda fact: fact.reported_by or "",
            "TEAM": lambda fact: fact.team_id or "",
        },
        empty="no fact matches"
        if any(value is not None for value in filters.values())
        else "no facts yet: `scheduled-actions facts report invoice 42 state '\"approved\"'` records one",
    )


@facts.command()
@_fact_arguments
@json_option
@pass_project
def show(project: Project, /, *, target_type: str, target_id: str, name: str, team_id: str | None) -> None:
    """Show the fact NAME of the entity TYPE ID, and its latest 100 changes."""
    target = {"type": target_type, "id": target_id}
    service = project.open_without_handlers().facts
    fields = asdict(service.get(target, name, team_id=team_id))
    changes = service.history(target, name, team_id=team_id)
    print_record(
        fields | {"history": [change._asdict() for change in changes]},
        {key: pretty_json(value) if key == "value" else field_text(key, value) for key, value in fields.items()},
        {"history": map(_history_line, changes)},
    )


def _history_line(change: FactChange) -> str:
    value = "(removed)" if change.is_removal else pretty_json(change.value).replace("\n", " ") or "null"
    return f"{local(change.changed_at)}  {one_line(value, longest=80)}" + (
        f" by {change.reported_by}" if change.reported_by else ""
    )


@facts.command()
@_fact_arguments
@json_option
@pass_project
def delete(project: Project, /, *, target_type: str, target_id: str, name: str, team_id: str | None) -> None:
    """Delete the fact NAME of the entity TYPE ID; its history is kept."""
    target = {"type": target_type, "id": target_id}
    project.open_without_handlers().facts.delete(target, name, team_id=team_id, by=caller())
    answer({"deleted": name}, "deleted")
