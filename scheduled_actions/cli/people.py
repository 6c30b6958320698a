"""`people`: notify people, and schedule actions at each user's local time."""

from typing import Any

import click

from scheduled_actions.cli.output import answer, as_document, print_page
from scheduled_actions.cli.parameters import json_option, required_payload_option
from scheduled_actions.cli.project import Project, caller, handlers_aside, pass_project
from scheduled_actions.notifications.rules.reminder import Severity


@click.group()
def people() -> None:
    """Notify people, or schedule an action at each user's local time."""


@people.command(short_help="Send a message to people.")
@click.argument("recipients", metavar="RECIPIENT...", nargs=-1, required=True)
@click.option("--text", required=True, metavar="TEXT", help="The message.")
@click.option("--subject", metavar="LINE", help="Subject, one line. [default: the first line of the text]")
@click.option(
    "--severity",
    type=click.Choice(["urgent", "high", "medium", "low"]),
    help="Severity; by default, quiet hours do not defer urgent messages.",
)
@click.option(
    "--digest",
    is_flag=True,
    help="Wait a few seconds (notifications.digest_seconds), and combine messages to the same person into one.",
)
@click.option("--team", "team_id", metavar="TEAM", help="Team that owns the message.")
@json_option
@pass_project
def notify(
    project: Project,
    /,
    recipients: tuple[str, ...],
    *,
    text: str,
    subject: str | None,
    severity: Severity | None,
    digest: bool,
    team_id: str | None,
) -> None:
    """Send a message to each person through the first of their channels that works.

    The next tick sends the message; quiet hours can defer it.

    RECIPIENT is an address (ann@example.org, https://…), a name in [notifications.channels], or resolver:name.
    """
    from scheduled_actions.notifications.planning import NoticeOptions  # noqa: PLC0415 - help needs no database driver

    with handlers_aside():
        scheduled = project.open().notifications.notify(
            list(recipients),
            text,
            NoticeOptions(severity=severity, digest=digest, team_id=team_id, arguments={"created_by": caller()}),
            subject=subject,
        )
    answer({"action_ids": [one.id for one in scheduled]}, "\n".join(str(one.id) for one in scheduled))


def _users(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> list[dict[str, str]]:
    return [
        {"user_id": user_id, **({"timezone": zone} if zone else {})}
        for user_id, _, zone in (one.partition("=") for one in given)
    ]


@people.command(short_help="Schedule at a time of day in each user's time zone.")
@click.argument("action_type", metavar="TYPE")
@click.argument("local_time", metavar="HH:MM")
@click.option(
    "--user", "users", multiple=True, required=True, metavar="ID[=ZONE]", callback=_users,
    help="A user and their IANA time zone; repeatable. [default zone: notifications.timezone]",
)  # fmt: skip
@required_payload_option
@click.option(
    "--rule", "recurrence", metavar="RULE", help="Create a schedule per user: daily, weekly. [default: run once]"
)
@click.option(
    "--name", metavar="NAME", help="With --rule: prefix of the schedule names, NAME:ID; existing schedules are updated."
)
@click.option("--team", "team_id", metavar="TEAM", help="Team that owns the actions or schedules.")
@json_option
@pass_project
def schedule(
    project: Project,
    /,
    action_type: str,
    local_time: str,
    *,
    users: list[dict[str, str]],
    payload: Any,  # noqa: ANN401 - any JSON
    **options: Any,  # noqa: ANN401 - of LocalScheduling.schedule_local
) -> None:
    """Schedule TYPE for each user at the next HH:MM in their time zone.

    If any user is invalid, nothing is scheduled.
    """
    with handlers_aside():
        scheduled = project.open().local_scheduling.schedule_local(
            action_type, payload, local_time, users, **options, created_by=caller()
        )
    print_page(
        {"scheduled": [as_document(one) for one in scheduled]},
        scheduled,
        {
            "USER": lambda one: one.user_id,
            "AT": lambda one: one.at.isoformat(" ", "minutes"),
            "ZONE": lambda one: one.timezone,
            "ID": lambda one: str(one.schedule_id or one.action_id),
        },
        empty="",
    )
