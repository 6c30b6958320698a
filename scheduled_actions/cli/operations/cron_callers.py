"""Who may ping `/cron/process` once a minute: what to paste for each, and what each is known to get wrong.

The texts are in `cron_callers.toml`. The secret is read by the caller's own means, a shell variable or a store; it
stands in what is made here only where it is asked for.
"""

from __future__ import annotations

import math
import shlex
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from scheduled_actions.ticks.rules.plan import within

#: The route that every caller pings.
PATH = "/cron/process"

#: Ends a shell snippet that would send an empty secret.
_INSISTS = ': "${CRON_SECRET:?set it to the value that the application has}"\n'
#: Where SQL, which knows no variables, takes the secret.
_TO_PUT_IN = "PUT THE VALUE OF CRON_SECRET HERE"
#: How much longer than the longest tick a caller that can be told waits.
_MARGIN_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Piece:
    """One text to paste: where it goes, and its language: `crontab`, `ini`, `json`, `sh`, `sql` or `yaml`."""

    place: str
    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One that pings.

    Attributes:
        line: What it is, for a list.
        pieces: What to paste, in this order.
        traps: What surprises people, each a sentence or more.
        needs_url: Whether it must be told where the application is served.
        hangs_up_seconds: After how long it hangs up, whatever it is told; None: it waits as long as it is told to.
    """

    name: str
    line: str
    pieces: tuple[Piece, ...]
    traps: tuple[str, ...]
    needs_url: bool = True
    hangs_up_seconds: int | None = None


@cache
def callers() -> dict[str, Caller]:
    """Return every caller by its name, with marks where address and secret belong."""
    text = resources.files(__package__).joinpath("cron_callers.toml").read_text(encoding="utf-8")
    return {
        one["name"]: Caller(
            **one | {"pieces": tuple(Piece(**piece) for piece in one["pieces"]), "traps": _listed(one["traps"])}
        )
        for one in tomllib.loads(text)["callers"]
    }


def _listed(text: str) -> tuple[str, ...]:
    """Return the items of a list whose lines begin with `- `, or with two spaces where they go on."""
    return tuple(" ".join(item.split()) for item in f"\n{text}".split("\n- ")[1:])


def filled(
    caller: Caller, *, base_url: str | None, tick_seconds: float, run_seconds: float, secret: str | None
) -> Caller:
    """Return the caller with everything in its place.

    Args:
        caller: One of `callers`.
        base_url: Where the application's routes are, as the setting `url` is checked: nothing in it needs quoting.
            None only where the caller needs none.
        tick_seconds: The longest that a tick may take: a caller that can be told waits a little longer.
        run_seconds: How long it starts what is due.
        secret: Stands in what is made; None: it is left to the shell's `$CRON_SECRET`, or to be put in.
    """
    below = (base_url or "").partition("://")[2].partition("/")[2]
    values = {
        "@URL@": f"{base_url}{PATH}",
        "@PATH@": f"/{below}{PATH}" if below else PATH,
        "@SECONDS@": str(math.ceil(tick_seconds) + _MARGIN_SECONDS),
        "@SQL_SECRET@": _sql(_TO_PUT_IN if secret is None else secret),
    }
    pieces = tuple(replace(piece, text=_filled(piece, values, secret)) for piece in caller.pieces)
    return replace(caller, pieces=pieces, traps=(*caller.traps, *_too_short(caller, tick_seconds, run_seconds)))


def _filled(piece: Piece, values: dict[str, str], secret: str | None) -> str:
    text = piece.text
    for mark, value in values.items():
        text = text.replace(mark, value)
    if piece.language != "sh" or "$CRON_SECRET" not in text:
        return text
    return (_INSISTS if secret is None else f"CRON_SECRET={shlex.quote(secret)}\n") + text


def _sql(text: str) -> str:
    """Return a text as an SQL literal that means the same whatever `standard_conforming_strings` says."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in text else "E'" + quoted.replace("\\", "\\\\") + "'"


def _too_short(caller: Caller, tick_seconds: float, run_seconds: float) -> tuple[str, ...]:
    limit = caller.hangs_up_seconds
    found = None if limit is None else within(limit)
    if limit is None or found is None or tick_seconds < limit:
        return ()
    trap = (
        f"A tick of yours may take {tick_seconds:g} s. It goes on after the caller has hung up and loses nothing, but "
        f"the ping counts as a failure. With max_run_seconds = {found.run_seconds}"
        f"{' or less, as it is,' if run_seconds <= found.run_seconds else ''} what a tick starts last has "
        f"{found.left_seconds} s to end: let handlers take no longer."
    )
    return (trap,)
