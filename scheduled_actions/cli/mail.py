"""`mail`: preview the templates of mails."""

from typing import Any

import click

from scheduled_actions.cli.group import Failure
from scheduled_actions.cli.output import answer
from scheduled_actions.cli.parameters import document_option, json_option
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.core.errors import InvalidArgument


@click.group()
def mail() -> None:
    """Preview the templates of mails."""


@mail.command(short_help="Print a mail as its template renders it.")
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

    Needs a database only for --parent.
    """
    from scheduled_actions.core.action import ParentAction  # noqa: PLC0415 - help needs no database driver
    from scheduled_actions.notifications.channels import templates  # noqa: PLC0415 - likewise

    known = templates.mail_templates(project.directory)
    if template not in known:
        raise InvalidArgument("template", template, templates.describe_mail_templates(known))
    if data is not None and not isinstance(data, dict):
        raise InvalidArgument("data", problem="must be a JSON object")
    read = None
    if parent is not None:
        found = project.open_without_handlers().scheduler.get_action(parent)
        read = ParentAction(**{name: getattr(found, name) for name in ParentAction.__dataclass_fields__})
    try:
        message = templates.render_mail(
            template, {"data": data or {}, "parent": read}, project=project.directory, subject=subject
        )
    except templates.TemplateBroken as error:
        raise Failure(error.details) from error
    if html and message.html is None:
        raise InvalidArgument("html", problem=f"needs {templates.FOLDER}/{template}.html, which does not exist")
    text = message.html if html else f"Subject: {message.subject}\n\n{message.text}"
    answer({"subject": message.subject, "text": message.text, "html": message.html}, (text or "").rstrip("\n"))
