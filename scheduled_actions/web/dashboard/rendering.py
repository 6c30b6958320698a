"""From a view to a page."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from markupsafe import Markup, escape

from scheduled_actions.web.dashboard import times
from scheduled_actions.web.dashboard.assets import assets
from scheduled_actions.web.dashboard.json_tree import tree
from scheduled_actions.web.dashboard.page import address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from jinja2.runtime import Context

    from scheduled_actions.web.dashboard.page import Frame, View, Visit

_FOLDER = Path(__file__).parent / "templates"


def page(view: View, visit: Visit, frame: Frame) -> str:
    """Return the page of a view, for somebody who has signed in."""
    values: dict[str, Any] = {
        "visit": visit,
        "who": visit.caller,
        "here": visit.here,
        "may": visit.may,
        "zone": visit.zone,
    }
    return _environment().get_template(view.template).render(**_shared(visit.base, frame), **values, **view.values)


def outside(template: str, base: str, frame: Frame, **values: Any) -> str:  # noqa: ANN401 - whatever it shows
    """Return a page for somebody who has not signed in."""
    return _environment().get_template(template).render(**_shared(base, frame), visit=None, **values)


def _shared(base: str, frame: Frame) -> dict[str, Any]:
    return {
        "base": base,
        "link": lambda path, **query: address(base + path, query),
        "asset": partial(_asset, base),
        "frame": frame,
        "has_page": lambda path: any(one.path == path for one, _ in frame.pages),
        "csrf": frame.csrf,
    }


def _asset(base: str, name: str) -> str:
    return address(f"{base}/static/{name}", {"v": assets()[name].version})


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "instant": _instant,
        "ago": _ago,
        "seconds": times.seconds,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "clock": _clock,
        "count": _count,
        "marked": _marked,
        "when_input": _when_input,
        "tree": tree,
    }
    environment.globals["badge"] = _badge
    return environment


@cache
def _badge(value: str) -> Markup:
    """Return a status as a page shows it; there are a few, and a list shows fifty."""
    words = "no handler" if value == "no_action" else value.replace("_", " ")
    return Markup('<span class="status {}">{}</span>').format(value, words)


@pass_context
def _instant(context: Context, moment: datetime | None, zone: ZoneInfo | None = None) -> Markup:
    """Return an instant where the viewer is, or in a zone that is named beside it."""
    visit: Visit = context["visit"]
    return times.instant(moment, zone or visit.zone, now=visit.now)


@pass_context
def _ago(context: Context, moment: datetime | None) -> Markup:
    visit: Visit = context["visit"]
    return times.ago(moment, visit.zone, now=visit.now)


@pass_context
def _when_input(context: Context, moment: datetime | None) -> str:
    visit: Visit = context["visit"]
    return times.when_input(moment, visit.zone)


@pass_context
def _clock(context: Context, moment: datetime, window: str) -> str:
    """Return an instant under a chart: its time, or in a week its day."""
    visit: Visit = context["visit"]
    shown = moment.astimezone(visit.zone)
    return f"{shown:%a} {shown.day}" if window == "week" else f"{shown:%H:%M}"


_MARKS = re.compile(r"`([^`\n]+)`|\b(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?Z)")


@pass_context
def _marked(context: Context, text: str) -> Markup:
    """Return a sentence of ours as a page shows it: what stands in backticks as code, instants where the viewer is."""
    made, last = Markup(), 0
    for found in _MARKS.finditer(text):
        made += escape(text[last : found.start()])
        code, moment = found.groups()
        made += Markup("<code>{}</code>").format(code) if code else _instant(context, times.parsed(moment))
        last = found.end()
    return made + escape(text[last:])


def _count(number: int | None, capped: bool | Mapping[str, Any] | None = None) -> str:  # noqa: FBT001 - a filter
    """Return a number as people read it, with a plus sign where it was not counted further."""
    return "—" if number is None else f"{number:,}{'+' if capped else ''}"
