"""Preview the templates of the project's mails and notifications."""

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import RequestError
from scheduled_actions.notifications.channels import template_preview, templates
from scheduled_actions.notifications.rules.reminder import Message
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.problems import UnknownRoute
from scheduled_actions.web.dashboard.page import DashboardPage, HtmlPart, Nav, RequestContext, View


def _names(context: RequestContext) -> tuple[list[str], list[str]]:
    """Return the names of the templates of mails, and of those of notifications.

    Raises:
        Forbidden: The caller is bound to a team.
    """
    context.caller.must_have_no_team("templates belong to no team")
    return template_preview.names(context.runtime.config.project)


def _template(context: RequestContext) -> tuple[str, bool]:
    """Return the name of the template in the path, and whether it is that of a notification.

    Raises:
        Forbidden: The caller is bound to a team.
        UnknownRoute: There is no such template.
    """
    mails, notices = _names(context)
    name = context.path["template"]
    if name not in mails and name not in notices:
        raise UnknownRoute(context.here)
    return name, name in notices


def _render(context: RequestContext, name: str) -> Message:
    """Render a template with the `data` and the `parent` of the query.

    Raises:
        RequestError: `data` is not a JSON object, or there is no action with the id `parent`.
        TemplateBroken: The template cannot be rendered with these values.
    """
    data, parent = (context.query.get(field, "").strip() for field in ("data", "parent"))
    return template_preview.preview(
        name,
        project=context.runtime.config.project,
        now=context.now,
        zone=context.zone,
        data=json_text.decode(data, name="data") if data else None,
        parent=context.runtime.scheduler.get_action(parent) if parent else None,
    )


def list_templates(context: RequestContext) -> View:
    """Show the names of the templates."""
    mails, notices = _names(context)
    return View("mail_templates.html", {"mails": mails, "notices": notices, "folder": templates.FOLDER})


def show_template(context: RequestContext) -> View:
    """Show a template as it is rendered with the values in the query."""
    name, is_notice = _template(context)
    values = {
        "name": name,
        "is_notice": is_notice,
        "given": {field: context.query.get(field, "") for field in ("data", "parent")},
        "message": None,
        "problem": None,
    }
    try:
        return View("mail_template.html", values | {"message": _render(context, name)})
    except templates.TemplateBroken as error:
        return View("mail_template.html", values | {"problem": error.details})
    except RequestError as error:
        return View("mail_template.html", values | {"problem": str(error)}, status=400)


def show_html(context: RequestContext) -> HtmlPart:
    """Show the HTML part as a page of its own, without scripts, forms, or anything of the network."""
    name, _ = _template(context)
    try:
        html = _render(context, name).html
    except templates.TemplateBroken as error:
        raise UnknownRoute(context.here) from error
    if html is None:
        raise UnknownRoute(context.here)
    return HtmlPart(html)


def _has_templates(runtime: Runtime) -> bool:
    return (runtime.config.project / templates.FOLDER).is_dir()


PAGES = (
    DashboardPage(
        "GET",
        "/templates",
        list_templates,
        nav=Nav("Templates", "template", is_of_no_team=True, is_in_use=_has_templates),
    ),
    DashboardPage("GET", "/templates/{template}", show_template),
    DashboardPage("GET", "/templates/{template}/html", show_html),
)
