"""What pages say of deadlines, and how people write who is responsible."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import json_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduled_actions.web.dashboard.page import Visit

_SAID = {
    "sent": "sent to {}",
    "done": "done",
    "begun": "begun",
    "failed": "failed: {}",
    "held_back": "held back: {}",
    "left_out": "left out: its instant had passed",
    "withdrawn": "not needed any more",
}


def named(deadline: Any) -> str:  # noqa: ANN401 - a deadline as the API tells it
    """Return what a deadline is called: its name, or what it is about."""
    return str(deadline.name or f"{deadline.target_type} {deadline.target_id}")


def people(recipients: Iterable[Any] | None) -> str:
    """Return who is responsible, in a line."""
    return ", ".join(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in recipients or ())


def typed(recipients: Iterable[Any]) -> str:
    """Return who is responsible as a form has it: whoever is more than an address stands as JSON, and so comes back."""
    told = list(recipients)
    return people(told) if all(isinstance(one, str) for one in told) else json.dumps(told, ensure_ascii=False)


def people_of(visit: Visit, name: str) -> Any:  # noqa: ANN401 - addresses, or any JSON
    """Return the people of a field as the API takes them."""
    return people_in(visit.form.get(name, ""), name=name)


def people_in(text: str, *, name: str = "recipients") -> Any:  # noqa: ANN401 - addresses, or any JSON
    """Return the people of a text as the API takes them."""
    return json_text.decode(text, name=name) if text.strip().startswith(("[", "{")) else listed(text)


def listed(text: str) -> list[str]:
    """Return the people of a field: parted by commas, semicolons or lines."""
    return [one.strip() for one in re.split(r"[,;\n]", text) if one.strip()]


def said_of(state: str, note: str | None) -> str:
    """Return what became of a stage."""
    words = _SAID.get(state, state.replace("_", " "))
    return words.format(note or "nobody") if "{}" in words else words
