"""Preview the templates of the project's mails and notifications."""

from typing import NamedTuple

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import RequestError
from scheduled_actions.notifications.channels import template_preview, templates
from scheduled_actions.notifications.rules.reminder import Message
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.problems import UnknownRoute
from scheduled_actions.web.dashboard.page import DashboardPage, HtmlPart, Nav, RequestContext, View


class _Template(NamedTuple):
    name: str
    is_notice: bool


def _templates(context: RequestContext) -> list[_Template]:
    """Return the templates of mails, and then those of notifications.

    Raises:
        Forbidden: The caller is bound to a team.
    """
    context.caller.must_have_no_team("templates belong to no team")
    mails, notices = template_preview.names(context.runtime.config.project)
    return [
        *(_Template(name, is_notice=False) for name in mails),
        *(_Template(name, is_notice=True) for name in notices),
    ]


def _template(context: RequestContext) -> _Template:
    """Return the template in the path.

    Raises:
        Forbidden: The caller is bound to a team.
        UnknownRoute: There is no such template.
    """
    found = next((one for one in _templates(context) if one.name == context.path["template"]), None)
    if found is None:
        raise UnknownRoute(context.here)
    return found


def _render(context: RequestContext, template: _Template) -> Message:
    """Render a template with the `data` and the `parent` of the query.

    Raises:
        RequestError: `data` is not a JSON object, or there is no action with the id `parent`.
        TemplateBroken: The template cannot be rendered with these values.
    """
    data, parent = (context.query.get(name, "").strip() for name in ("data", "parent"))
    return template_preview.preview(
        template.name,
        project=context.runtime.config.project,
        now=context.now,
        zone=context.zone,
        data=json_text.decode(data, name="data") if data else None,
        parent=context.runtime.scheduler.get_action(parent) if parent else None,
    )


def list_templates(context: RequestContext) -> View:
    """Show the names of the templates."""
    return View("mail_templates.html", {"templates": _templates(context), "folder": templates.FOLDER})


def show_template(context: RequestContext) -> View:
    """Show a template as it is rendered with the values in the query."""
    template = _template(context)
    values = {
        "template": template,
        "given": {name: context.query.get(name, "") for name in ("data", "parent")},
        "message": None,
        "problem": None,
    }
    try:
        return View("mail_template.html", values | {"message": _render(context, template)})
    except templates.TemplateBroken as error:
        return View("mail_template.html", values | {"problem": error.details})
    except RequestError as error:
        return View("mail_template.html", values | {"problem": str(error)}, status=400)


def show_html(context: RequestContext) -> HtmlPart:
    """Show the HTML part as a page of its own, without scripts, forms, or anything of the network."""
    try:
        html = _render(context, _template(context)).html
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
