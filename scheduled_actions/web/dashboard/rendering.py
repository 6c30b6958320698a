"""Render pages: the template environment, its filters, JSON trees and static files."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from markupsafe import Markup, escape

from scheduled_actions.core.messages import counted
from scheduled_actions.web.dashboard import times
from scheduled_actions.web.dashboard.page import PageContext, RequestContext, View, address

if TYPE_CHECKING:
    from jinja2.runtime import Context

_FOLDER = Path(__file__).parent
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
#: The limits of a JSON tree: number of values, characters per string or number, and levels.
VALUES_MOST = 300
TEXT_MOST = 1000
_DEPTH_MOST = 30
#: Branches at this level and below are initially collapsed.
_OPEN_TO = 2
_MARKS = re.compile(r"`([^`\n]+)`|\b(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?Z)")


def page(view: View, base: str, frame: PageContext, context: RequestContext | None = None) -> str:
    """Render a view; `context` is the request of a signed-in caller, None for other visitors."""
    shared: dict[str, Any] = {
        "request_context": context,
        "base": base,
        "link": lambda path, **query: address(base + path, query),
        "asset": lambda name: address(f"{base}/static/{name}", {"v": assets()[name].version}),
        "frame": frame,
        "csrf": frame.csrf,
    }
    if context is not None:
        shared |= {"who": context.caller, "here": context.here, "may": context.may, "zone": context.zone}
    return _environment().get_template(view.template).render(**shared, **view.values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "instant": _instant,
        "ago": _ago,
        "badge": _badge,
        "seconds": times.seconds,
        "capitalize_first": lambda text: text[:1].upper() + text[1:],
        "clock": _clock,
        "count": _count,
        "marked": _marked,
        "when_input": _when_input,
        "tree": tree,
    }
    return environment


@cache
def _badge(value: str) -> Markup:
    """Format a status as a badge; cached, because a list repeats a few statuses."""
    return Markup('<span class="status {}">{}</span>').format(
        value, "no handler" if value == "no_action" else value.replace("_", " ")
    )


@pass_context
def _instant(context: Context, moment: datetime | None, zone: ZoneInfo | None = None) -> Markup:
    """Format an instant in `zone`; None: in the viewer's time zone."""
    request: RequestContext = context["request_context"]
    return times.instant(moment, zone or request.zone, now=request.now)


@pass_context
def _ago(context: Context, moment: datetime | None) -> Markup:
    request: RequestContext = context["request_context"]
    return times.ago(moment, request.zone, now=request.now)


@pass_context
def _when_input(context: Context, moment: datetime | None) -> str:
    return times.when_input(moment, context["request_context"].zone)


@pass_context
def _clock(context: Context, moment: datetime, window: str) -> str:
    """Format a label of a chart's axis: the day if the window is a week, otherwise the time."""
    shown = moment.astimezone(context["request_context"].zone)
    return f"{shown:%a} {shown.day}" if window == "week" else f"{shown:%H:%M}"


@pass_context
def _marked(context: Context, text: str) -> Markup:
    """Convert a sentence to HTML: text in backticks becomes code, UTC times become the viewer's local times."""
    marked, last = Markup(), 0
    for found in _MARKS.finditer(text):
        marked += escape(text[last : found.start()])
        code, moment = found.groups()
        marked += Markup("<code>{}</code>").format(code) if code else _instant(context, times.parsed(moment))
        last = found.end()
    return marked + escape(text[last:])


def _count(number: int | None, capped: bool | Mapping[str, Any] | None = None) -> str:  # noqa: FBT001 - a filter
    """Format a number with thousands separators, and a plus sign if it was capped; a dash for None."""
    return "—" if number is None else f"{number:,}{'+' if capped else ''}"


@dataclass(slots=True)
class Node:
    """A value in a JSON tree."""

    #: The key or index of the value; None at the root.
    label: str | None
    #: `text`, `number`, `word` (true, false, null), `object` or `list`.
    kind: str
    #: The value as JSON, truncated to `TEXT_MOST` characters; for an object or list, the number of its items.
    text: str
    children: list[Node] = field(default_factory=list)
    is_open: bool = False
    #: The number of children that are not shown.
    left_out: int = 0


def tree(value: Any) -> Node:  # noqa: ANN401 - any JSON
    """Build the collapsible tree of a JSON value, truncated to `VALUES_MOST` values and `_DEPTH_MOST` levels."""
    return _node(None, value, iter(range(1, VALUES_MOST)), depth=0)


def _node(label: str | None, value: Any, left: Iterator[int], *, depth: int) -> Node:  # noqa: ANN401 - any JSON
    """Build a node and its children; each child takes one item of `left`."""
    items: Iterable[tuple[Any, Any]]
    match value:
        case dict():
            node, items = Node(label, "object", counted(len(value), "key")), value.items()
        case list() | tuple():
            node, items = Node(label, "list", counted(len(value), "item")), enumerate(value)
        case _:
            kind = {str: "text", bool: "word", type(None): "word"}.get(type(value), "number")
            text = json.dumps(value, ensure_ascii=not isinstance(value, str), default=str)
            return Node(label, kind, text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST]}…")
    node.is_open = depth < _OPEN_TO
    node.children = [
        _node(str(name), child, left, depth=depth + 1)
        for name, child in items
        if depth < _DEPTH_MOST and next(left, None) is not None
    ]
    node.left_out = len(value) - len(node.children)
    return node


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file."""

    media_type: str
    #: Changes with the content, so that browsers can cache the file indefinitely.
    version: str
    content: bytes
    compressed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the static files by name."""
    contents = {path: path.read_bytes() for path in (_FOLDER / "static").iterdir() if path.suffix in _MEDIA_TYPES}
    return {
        path.name: Asset(
            media_type=_MEDIA_TYPES[path.suffix],
            version=hashlib.sha256(content).hexdigest()[:12],
            content=content,
            compressed=gzip.compress(content, mtime=0),
        )
        for path, content in contents.items()
    }
