"""Changes of all actions that match: counted first, then done in bites whose progress is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduled_actions.operations.tokens import Role
from scheduled_actions.web.dashboard.actions.list import FILTERS, wanted
from scheduled_actions.web.dashboard.page import Page, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.web.dashboard.page import Visit

#: So many are changed between two looks at the progress.
_BITE = 500
_RETRY, _CANCEL = "retry", "cancel"


def count(change: str) -> Callable[[Visit], View]:
    """Return the page that counts what a change would change."""

    def counted(visit: Visit) -> View:
        filters = wanted(visit)
        found = visit.ask("POST", f"/actions/{change}", body=_which(filters) | {"dry_run": True})
        return View("bulk.html", _values(change, filters, total=found.matched, is_capped=found.more, is_asked=True))

    return counted


def carry_out(change: str) -> Callable[[Visit], View]:
    """Return the page that changes a bite of them, and goes on by itself."""

    def carried_out(visit: Visit) -> View:
        filters = visit.given(*FILTERS)
        more = visit.given("cursor", *(("reason",) if change == _CANCEL else ()))
        if change == _CANCEL and visit.form.get("force"):
            more |= {"force": True}  # type: ignore[dict-item]  # as JSON has it
        bite = visit.ask("POST", f"/actions/{change}", body=_which(filters) | more | {"limit": _BITE})
        done = _number(visit, "changed") + bite.changed
        values = _values(change, filters, total=max(_number(visit, "total"), done), is_capped=False, is_asked=False)
        return View(
            "bulk.html",
            values
            | {
                "changed": done,
                "passed": _number(visit, "passed") + bite.matched - bite.changed,
                "cursor": bite.next_cursor,
                "more": bite.more,
                "reason": visit.form.get("reason", ""),
                "is_forced": bool(visit.form.get("force")),
            },
        )

    return carried_out


def _which(filters: Mapping[str, str]) -> dict[str, Any]:
    return dict(filters) or {"all": True}


def _number(visit: Visit, name: str) -> int:
    text = visit.form.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0  # noqa: PLR2004 - no more than are counted


def _values(change: str, filters: Mapping[str, str], *, total: int, is_capped: bool, is_asked: bool) -> dict[str, Any]:
    return {
        "change": change,
        "filters": dict(filters),
        "total": total,
        "is_capped": is_capped,
        "is_asked": is_asked,
        "changed": 0,
        "passed": 0,
        "cursor": None,
        "more": False,
        "reason": "",
        "is_forced": False,
    }


PAGES = tuple(
    page
    for change in (_RETRY, _CANCEL)
    for page in (
        Page("GET", f"/actions/{change}", count(change), role=Role.OPERATOR),
        Page("POST", f"/actions/{change}", carry_out(change), role=Role.OPERATOR),
    )
)
