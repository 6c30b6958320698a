"""JSON as people look at it: a tree whose branches fold, cut where it would fill the page."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

#: So many values a tree shows, and so many characters of a text.
VALUES_MOST = 300
TEXT_MOST = 1000
_DEPTH_MOST = 30
#: Branches further inside are folded at first.
_OPEN_TO = 2


@dataclass(slots=True)
class Node:
    """One value."""

    #: Its name or number in what holds it; None at the root.
    label: str | None
    #: `text`, `number`, `word` (true, false, null), `object` or `list`.
    kind: str
    #: As JSON has it; for a branch: what is in it, in words.
    text: str
    children: list[Node] = field(default_factory=list)
    is_open: bool = False
    #: How many of its children are not shown.
    left_out: int = 0


def tree(value: Any) -> Node:  # noqa: ANN401 - any JSON
    """Return the tree of a JSON value."""
    return _Tree().node(None, value, depth=0)


def is_cut(node: Node) -> bool:
    """Whether something of the value is not shown."""
    return node.left_out > 0 or node.text.endswith("…") or any(is_cut(child) for child in node.children)


class _Tree:
    def __init__(self) -> None:
        self._left = VALUES_MOST

    def node(self, label: str | None, value: Any, *, depth: int) -> Node:  # noqa: ANN401 - any JSON
        self._left -= 1
        match value:
            case dict():
                return self._branch(label, "object", "key", [(str(name), one) for name, one in value.items()], depth)
            case list() | tuple():
                return self._branch(label, "list", "item", [(str(at), one) for at, one in enumerate(value)], depth)
            case str():
                text = json.dumps(value, ensure_ascii=False)
                return Node(label, "text", text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST]}…")
            case bool() | None:
                return Node(label, "word", json.dumps(value))
            case _:
                text = json.dumps(value, default=str)
                return Node(label, "number", text if len(text) <= TEXT_MOST else f"{text[:TEXT_MOST]}…")

    def _branch(self, label: str | None, kind: str, unit: str, items: list[tuple[str, Any]], depth: int) -> Node:
        text = f"{len(items):,} {unit}{'' if len(items) == 1 else 's'}"
        node = Node(label, kind, text, is_open=depth < _OPEN_TO)
        for name, value in items:
            if self._left <= 0 or depth >= _DEPTH_MOST:
                break
            node.children.append(self.node(name, value, depth=depth + 1))
        node.left_out = len(items) - len(node.children)
        return node
