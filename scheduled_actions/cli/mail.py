"""`mail`: preview the templates of mails and notifications."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import answer
from scheduled_actions.cli.parameters import document_option, json_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.core.errors import InvalidArgument


@click.group()
def mail() -> None:
    """Preview the templates of mails and notifications."""


@mail.command(short_help="Print a mail or a notification as its template renders it.")
@click.argument("template", metavar="TEMPLATE")
@document_option("--data", help="JSON object that the template reads as `data`; @FILE reads a file. [default: {}]")
@click.option("--subject", metavar="LINE", help="Subject. [default: the first line of the template]")
@click.option("--parent", metavar="ID", help="Action that the template reads as `parent`. [default: none]")
@click.option("--html", is_flag=True, help="Print the HTML part instead of the subject and the text.")
@json_option
@pass_project
def preview(
    project: Project,
    /,
    template: str,
    *,
    data: Any,  # noqa: ANN401 - any JSON
    subject: str | None,
    parent: str | None,
    html: bool,
) -> None:
    """Print the mail that `email:send` would send with this TEMPLATE: `welcome` for templates/welcome.txt.

    The template of a notification, such as `reminder-low` or `escalation`, is filled with the values of a sample
    deadline. Needs a database only for --parent.
    """
    from scheduled_actions.notifications.channels import template_preview, templates  # noqa: PLC0415 - help needs no database driver

    action = None if parent is None else project.open_without_handlers().scheduler.get_action(parent)
    try:
        message = template_preview.preview(
            template,
            project=project.directory,
            now=datetime.now(UTC),
            zone=ZoneInfo(project.config.settings.notifications.timezone),
            data=data,
            parent=action,
            subject=subject,
        )
    except templates.TemplateBroken as error:
        raise Failure(error.details) from error
    if html and message.html is None:
        raise InvalidArgument("html", problem=f"needs {templates.FOLDER}/{template}.html, which does not exist")
    text = message.html if html else f"Subject: {message.subject}\n\n{message.text}"
    answer({"subject": message.subject, "text": message.text, "html": message.html}, (text or "").rstrip("\n"))
