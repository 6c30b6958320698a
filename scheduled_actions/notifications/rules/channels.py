"""Channels: the ways to a person, each a text, told apart by how it is written and never repeated whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from scheduled_actions.core.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

#: `named`: an apprise or webhook URL that the settings name, and the environment holds.
ChannelKind: TypeAlias = Literal["email", "webhook", "apprise", "named"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_SCHEME = re.compile(r"[a-z][a-z0-9+.\-]{0,40}", re.IGNORECASE)
#: The scheme and the host of a web address; what stands before an @ is a login.
_WEB = re.compile(r"(https?)://(?:[^/?#@]*@)?([^/?#@]+)", re.IGNORECASE)
_LONGEST = 2048
_MASK = "…"
_EXPECTED = (
    "an e-mail address, an https:// address, an apprise URL (slack://…), or a name of [notifications.channels]; "
    "people by role are written resolver:name"
)


@dataclass(frozen=True, slots=True)
class Channel:
    """One way to a person."""

    kind: ChannelKind
    #: What leads there: it may hold secrets.
    address: str

    def __repr__(self) -> str:
        """Return what may be shown."""
        return f"Channel({self.kind}, {self.masked})"

    @property
    def masked(self) -> str:
        """The address as logs, errors and results may show it: who is meant can be told, but not reached."""
        match self.kind:
            case "email":
                local, _, domain = self.address.rpartition("@")
                return f"{local[:1]}{_MASK}@{domain.rstrip('>')}" if "<" not in local else _of_named(self.address)
            case "webhook":
                found = _WEB.match(self.address)
                return f"{found[1].lower()}://{found[2]}/{_MASK}" if found else _MASK
            case "apprise":
                return f"{self.address.partition('://')[0].lower()}://{_MASK}"
            case "named":
                return self.address


def _of_named(address: str) -> str:
    """Return `Ann <ann@example.org>` without the name."""
    inside = address.rpartition("<")[2].removesuffix(">")
    return Channel("email", inside).masked


def parse_channel(text: object, *, name: str = "channel") -> Channel:
    """Return the channel that a text means.

    Args:
        text: `ann@example.org`, `Ann <ann@example.org>`, `https://…`, an apprise URL, or a name of the settings.
        name: What it is called in errors, which never repeat an address with a scheme: it may hold a secret.

    Raises:
        InvalidArgument: It is none of them.
    """
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise InvalidArgument(name, type(text).__name__ if not isinstance(text, str) else text[:40], _EXPECTED)
    scheme, is_url, rest = text.partition("://")
    if is_url:
        if not _SCHEME.fullmatch(scheme) or not rest:
            raise InvalidArgument(name, f"{scheme[:40]}://{_MASK}", _EXPECTED)
        if scheme.lower() in {"http", "https"}:
            if not _WEB.match(text):
                raise InvalidArgument(name, f"{scheme}://{_MASK}", "a web address with a host")
            return Channel("webhook", text)
        return Channel("apprise", text)
    if "@" in text:
        return Channel("email", text)
    if _NAME.fullmatch(text):
        return Channel("named", text)
    raise InvalidArgument(name, text, _EXPECTED)


def parse_channels(given: object, *, name: str) -> tuple[Channel, ...]:
    """Return the channels of a text or of a list of texts, in their order.

    Raises:
        InvalidArgument: One is none, or there is none.
    """
    listed: Iterable[object] = [given] if isinstance(given, str) else given if isinstance(given, list | tuple) else []
    channels = tuple(parse_channel(one, name=name) for one in listed)
    if not 1 <= len(channels) <= _MOST:
        raise InvalidArgument(name, len(channels), f"1 to {_MOST} channels, the first that works is used")
    return channels


_MOST = 10
