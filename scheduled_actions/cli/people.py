"""The commands about people: `notify`, and `schedule-local`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from scheduled_actions.cli.output import as_document, print_json, print_table
from scheduled_actions.cli.parameters import as_json_option, json_document
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project

if TYPE_CHECKING:
    from scheduled_actions.notifications.rules.severity import Severity


@click.command()
@click.argument("recipients", metavar="RECIPIENT...", nargs=-1, required=True)
@click.option("--text", required=True, metavar="TEXT", help="The words.")
@click.option("--subject", metavar="LINE", help="One line. [default: the text's first]")
@click.option("--severity", type=click.Choice(["urgent", "high", "medium", "low"]), help="Urgent passes quiet hours.")
@click.option("--gather", is_flag=True, help="Let what comes together for one person become one message.")
@click.option("--team", "team_id", metavar="TEAM", help="The tenant.")
@as_json_option
@pass_project
def notify(
    project: Project,
    /,
    recipients: tuple[str, ...],
    *,
    text: str,
    subject: str | None,
    severity: Severity | None,
    gather: bool,
    team_id: str | None,
    as_json: bool,
) -> None:
    """Tell people something, each through the first of their channels that works, at the next tick.

    RECIPIENT is an address (ann@example.org, https://…), a name of [notifications.channels], or resolver:name.
    """
    from scheduled_actions.notifications.planning import Options  # noqa: PLC0415 - help needs no models

    options = Options(severity=severity, gather=gather, team_id=team_id, arguments={"created_by": caller()})
    notifications = project.open().notifications
    with handlers_aside():
        scheduled = notifications.notify(list(recipients), text, options, subject=subject)
    if as_json:
        print_json({"action_ids": [one.id for one in scheduled]})
        return
    for one in scheduled:
        click.echo(one.id)


def _users(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, str]]:
    users = []
    for one in given:
        user_id, _, zone = one.partition("=")
        users.append({"user_id": user_id, **({"timezone": zone} if zone else {})})
    return users


@click.command("schedule-local")
@click.argument("action_type", metavar="TYPE")
@click.argument("local_time", metavar="HH:MM")
@click.option(
    "--user", "users", multiple=True, required=True, metavar="ID[=ZONE]", callback=_users,
    help="A user and their IANA zone; repeatable. [zone: notifications.timezone]",
)  # fmt: skip
@click.option("--payload", type=json_document, default="{}", metavar="JSON", help="The same for all. [default: {}]")
@click.option("--rule", "recurrence", metavar="RULE", help="One series per user: daily, weekly. [default: once]")
@click.option("--name", metavar="NAME", help="Of the series: asking again brings them up to date.")
@click.option("--team", "team_id", metavar="TEAM", help="The tenant.")
@as_json_option
@pass_project
def schedule_local(
    project: Project,
    /,
    action_type: str,
    local_time: str,
    *,
    users: list[dict[str, str]],
    payload: Any,  # noqa: ANN401 - any JSON
    recurrence: str | None,
    name: str | None,
    team_id: str | None,
    as_json: bool,
) -> None:
    """Schedule TYPE for each user at the next HH:MM on the clock on their wall: for all of them, or for nobody."""
    local_scheduling = project.open().local_scheduling
    with handlers_aside():
        scheduled = local_scheduling.schedule_local(
            action_type,
            payload,
            local_time,
            users,
            recurrence=recurrence,
            name=name,
            team_id=team_id,
            created_by=caller(),
        )
    if as_json:
        print_json({"scheduled": [as_document(one) for one in scheduled]})
        return
    print_table(
        ("USER", "AT", "ZONE", "ID"),
        [
            (one.user_id, one.at.isoformat(" ", "minutes"), one.timezone, str(one.schedule_id or one.action_id))
            for one in scheduled
        ],
    )
