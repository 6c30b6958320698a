"""`events`: emit one by hand, or let every change of a table be one."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import print_json, print_table
from scheduled_actions.cli.parameters import as_json_option, json_document
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime
    from scheduled_actions.webhooks.watches import Watch

# What a command does not need is not imported: help answers without a database driver.
# ruff: noqa: PLC0415

_VERBS = ("created", "updated", "deleted")


def _names(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[str, ...] | None:
    """Return the names of a list such as `a,b`; None where there is none."""
    if given is None:
        return None
    names = tuple(one.strip() for one in given.split(",") if one.strip())
    if not names:
        message = "names nothing: write names separated by commas"
        raise click.BadParameter(message)
    return names


@click.group()
def events() -> None:
    """Emit events, and let a table's own triggers emit them: what has happened, on its way to the webhooks."""


@events.command(short_help="Send one event to every endpoint that wants it.")
@click.argument("event", metavar="EVENT")
@click.option("--entity-id", required=True, metavar="ID", help="Which entity it happened to.")
@click.option("--data", type=json_document, default="{}", metavar="JSON", help="Any JSON; @FILE reads a file.")
@click.option("--team", "team_id", metavar="TEAM", help="The tenant it belongs to.")
@click.option("--endpoint", metavar="NAME", help="To this endpoint alone, whatever its patterns.")
@click.option(
    "--dedup-window", type=float, metavar="SECONDS", help="For how long the same event is one; 0 merges nothing."
)
@as_json_option
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
    as_json: bool,
) -> None:
    """Send EVENT (entity:verb, such as task:created) to every endpoint that wants it, at the next tick."""
    from scheduled_actions.actions.model import NewAction
    from scheduled_actions.webhooks.sending import ACTION_TYPE, event_payload

    payload = event_payload(event, entity_id=entity_id, data=data, endpoint=endpoint)
    new = NewAction(
        action_type=ACTION_TYPE, payload=payload, team_id=team_id, dedup_window=dedup_window, created_by=caller()
    )
    runtime = project.open()
    if endpoint is not None:
        _check_endpoint(runtime, endpoint, team_id)
    with handlers_aside():
        scheduled = runtime.scheduler.schedule_action(new)
    if as_json:
        print_json({"id": scheduled.id, "deduplicated": scheduled.deduplicated})
    else:
        click.echo(f"{'merged into' if scheduled.deduplicated else 'emitted as'} {scheduled.id}")


def _check_endpoint(runtime: Runtime, endpoint: str, team_id: str | None) -> None:
    """Refuse an endpoint that would not get the event."""
    from scheduled_actions.core.errors import UnknownEndpoint

    found = runtime.endpoint_book.any(endpoint)
    if found is None:
        raise UnknownEndpoint(endpoint)
    if not found.belongs_to(team_id):
        message = f"it gets the events of team {found.team_id} alone: say so with --team"
        raise click.BadParameter(message, param_hint="'--endpoint'")


@events.command(short_help="Let every change of a table be an event.")
@click.argument("table", metavar="TABLE")
@click.option("--entity", required=True, metavar="NAME", help="What a row is: the first half of its events.")
@click.option("--id-column", "id_columns", callback=_names, metavar="COLUMN", help="Its id. [default: the primary key]")
@click.option("--team-column", metavar="COLUMN", help="The tenant a row belongs to.")
@click.option("--columns", callback=_names, metavar="A,B", help="Tell of these columns alone. [default: all of them]")
@click.option(
    "--on", callback=_names, default=",".join(_VERBS), show_default=True, metavar="VERBS", help="Some of these."
)
@click.option(
    "--dedup-window",
    type=float,
    default=0,
    metavar="SECONDS",
    help="For how long the same event of the same entity is one. [default: 0, every change is told]",
)
@as_json_option
@pass_project
def watch(project: Project, /, *, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - the fields of a Watch
    """Schedule NAME:created, NAME:updated and NAME:deleted for each row of TABLE that a statement changes.

    TABLE is written as SQL writes it: schema.table, "Quoted" where it has capitals. Triggers schedule the events, in
    the writer's own transaction: rolled back, there never was one. Watching again replaces what was watched.
    """
    from scheduled_actions.webhooks import watches

    with project.open_without_handlers().database.connection() as connection:
        now = watches.watch(connection, watches.Watch(**given))
    if as_json:
        print_json(_as_document(now))
    else:
        click.echo(f"watching {now.table}: {', '.join(f'{now.entity}:{verb}' for verb in now.on)}")


@events.command(short_help="Let changes of a table be events no longer.")
@click.argument("table", metavar="TABLE")
@click.option("--entity", metavar="NAME", help="This entity alone. [default: all that the table is watched for]")
@as_json_option
@pass_project
def unwatch(project: Project, table: str, *, entity: str | None, as_json: bool) -> None:
    """Take the triggers off TABLE. Events that they have scheduled stay."""
    from scheduled_actions.webhooks import watches

    with project.open_without_handlers().database.connection() as connection:
        ended = watches.unwatch(connection, table, entity=entity)
    if as_json:
        print_json({"unwatched": ended})
    else:
        click.echo("it was not watched" if ended == 0 else f"{ended} {'watch' if ended == 1 else 'watches'} ended")


@events.command(short_help="List the tables whose changes are events.")
@as_json_option
@pass_project
def watched(project: Project, *, as_json: bool) -> None:
    """List the tables whose changes are events, as the database's catalog has them."""
    from scheduled_actions.webhooks import watches

    with project.open_without_handlers().database.connection() as connection:
        found = watches.watched(connection)
    if as_json:
        print_json({"watched": [_as_document(one) for one in found]})
    elif not found:
        click.echo("no table is watched: `scheduled-actions events watch TABLE --entity NAME` watches one")
    else:
        print_table(("TABLE", "ENTITY", "ON", "ID", "TEAM", "COLUMNS", "NOTE"), [_as_row(one) for one in found])


def _as_document(watch: Watch) -> dict[str, Any]:
    return asdict(watch)


def _as_row(watch: Watch) -> tuple[str, ...]:
    notes = []
    if watch.missing:
        notes.append(f"{', '.join(watch.missing)} is gone: watch it again")
    if not watch.is_enabled:
        notes.append("a trigger is switched off")
    if watch.dedup_window:
        notes.append(f"merged for {watch.dedup_window:g} s")
    return (
        watch.table,
        watch.entity,
        ",".join(watch.on),
        ",".join(watch.id_columns or ()),
        watch.team_column or "",
        "all" if watch.columns is None else ",".join(watch.columns),
        "; ".join(notes),
    )
