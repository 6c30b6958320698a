"""Show the mails that `scheduled-actions dev` catches; there are no such pages where mails are not caught."""

from pathlib import Path

from scheduled_actions.notifications import caught_mails
from scheduled_actions.notifications.caught_mails import CaughtMail
from scheduled_actions.web.api.problems import UnknownRoute
from scheduled_actions.web.dashboard.page import DashboardPage, HtmlPart, Nav, RequestContext, View


def _directory(context: RequestContext) -> Path:
    """Return the directory of the caught mails.

    Raises:
        Forbidden: The caller is bound to a team.
        UnknownRoute: Mails are not caught here.
    """
    context.caller.must_have_no_team("mails belong to no team")
    directory = caught_mails.directory_of(context.runtime.config)
    if directory is None:
        raise UnknownRoute(context.here)
    return directory


def _mail(context: RequestContext) -> CaughtMail:
    """Return the mail in the path.

    Raises:
        Forbidden: The caller is bound to a team.
        UnknownRoute: Mails are not caught here, or this one is not kept.
    """
    mail = caught_mails.read(_directory(context), context.path["mail"])
    if mail is None:
        raise UnknownRoute(context.here)
    return mail


def list_mails(context: RequestContext) -> View:
    """Show the caught mails, the newest first."""
    directory = _directory(context)
    return View("mails.html", {"mails": caught_mails.newest(directory), "directory": caught_mails.DIRECTORY})


def show_mail(context: RequestContext) -> View:
    """Show one mail: its headers and its text."""
    return View("mail.html", {"mail": _mail(context), "directory": caught_mails.DIRECTORY})


def show_html(context: RequestContext) -> HtmlPart:
    """Show the HTML part of a mail as a page of its own, without scripts, forms, or anything of the network."""
    mail = _mail(context)
    if mail.html is None:
        raise UnknownRoute(context.here)
    return HtmlPart(mail.html)


PAGES = (
    DashboardPage(
        "GET",
        "/mail",
        list_mails,
        nav=Nav(
            "Mail",
            "mail",
            is_of_no_team=True,
            is_in_use=lambda runtime: caught_mails.directory_of(runtime.config) is not None,
        ),
    ),
    DashboardPage("GET", "/mail/{mail}", show_mail),
    DashboardPage("GET", "/mail/{mail}/html", show_html),
)
