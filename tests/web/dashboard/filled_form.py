"""Read from a page the fields that a browser submits for an unchanged form."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


def submitted(page: str, action: str) -> dict[str, Any]:
    """Return the fields that an unchanged form submits, by name; a list for a name with several values.

    Args:
        page: The HTML of the page.
        action: The end of the address to which the form is submitted.
    """
    reader = _Reader(action)
    reader.feed(page)
    assert reader.found, f"the page has no form for {action}"
    return reader.fields


class _Reader(HTMLParser):
    def __init__(self, action: str) -> None:
        super().__init__(convert_charrefs=True)
        self._action = action
        self._inside = False
        self._area: str | None = None
        self._select: str | None = None
        self._option: str | None = None
        self.found = False
        self.fields: dict[str, Any] = {}

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "form":
            self._inside = given.get("action", "").partition("?")[0].endswith(self._action)
            self.found = self.found or self._inside
        if not self._inside:
            return
        name = given.get("name", "")
        match tag:
            case "input" if name and (given.get("type") not in {"checkbox", "radio"} or "checked" in given):
                value = given.get("value", "on" if given.get("type") == "checkbox" else "")
                before = self.fields.get(name)
                several = [*before, value] if isinstance(before, list) else [before, value]
                self.fields[name] = value if before is None else several
            case "textarea":
                self._area = name
                self.fields.setdefault(name, "")
            case "select":
                self._select = name
            case "option" if self._select is not None:
                self._option = given.get("value")
                if "selected" in given or self._select not in self.fields:
                    self.fields[self._select] = given.get("value", "")
                    self._option = self._select if "value" not in given else None
                else:
                    self._option = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            # A browser omits the line break after the tag, and sends the others as CRLF.
            text = self.fields[self._area] + data
            self.fields[self._area] = text
        elif self._option is not None and self._inside:
            self.fields[self._option] = data

    def handle_endtag(self, tag: str) -> None:
        match tag:
            case "form":
                self._inside = False
            case "textarea" if self._area is not None:
                text = self.fields[self._area].removeprefix("\n")
                self.fields[self._area] = text.replace("\r\n", "\n").replace("\n", "\r\n")
                self._area = None
            case "select":
                self._select = self._option = None
            case "option":
                self._option = None
