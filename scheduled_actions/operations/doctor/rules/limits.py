"""Checks of limit keys and pauses: long queues, unknown keys, slots that are not freed, and forgotten pauses."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from scheduled_actions.core.messages import counted, listed
from scheduled_actions.limits.rules.display import WAITING_MOST
from scheduled_actions.operations.doctor.rules import WARNING, Check, first_problem, in_words
from scheduled_actions.operations.doctor.rules.project import COUNTED

#: An action that waits in the queue of a limit key for longer than this is reported.
LONG_WAIT = timedelta(minutes=10)
#: Maximum number of names listed in one check.
_NAMES_MOST = 5
#: Kinds of pauses, in words.
_KINDS = {"action_type": "action type", "team": "team", "lock_group": "lock group", "limit": "limit key"}


class LongQueue(NamedTuple):
    """A limit key whose oldest queued action has been due for long."""

    limit_key: str
    #: None: no team, or all teams.
    team_id: str | None
    in_use: int | None
    #: None: any number.
    at_once: int | None
    #: Such as `100 per minute`; None: any rate.
    rate: str | None
    #: Number of queued actions; exact below `WAITING_MOST`.
    waiting: int
    oldest: timedelta

    def __str__(self) -> str:
        """Return the key with its limits and its queue."""
        team = "" if self.team_id is None else f" of team {self.team_id}"
        slots = "" if self.at_once is None else f"{self.in_use} of {self.at_once} in use, "
        rate = "" if self.rate is None else f"{self.rate}, "
        waiting = f"{self.waiting:,}{'+' if self.waiting >= WAITING_MOST else ''}"
        return f"{self.limit_key}{team} ({slots}{rate}{waiting} waiting, the oldest for {in_words(self.oldest)})"


def limit_keys(*, long: Sequence[LongQueue], unknown: Sequence[str], stale_slots: int, is_missing: bool) -> list[Check]:
    """Return a warning for limit keys with long queues or without a pattern, and for slots that are not freed.

    Args:
        long: Limit keys in whose queues actions have been due for longer than `LONG_WAIT`, the longest first.
        unknown: Keys of queued actions that match no pattern.
        stale_slots: Slots whose actions have not been running for `LONG_WAIT`; exact below `COUNTED`.
        is_missing: Whether no cron seems to ping, which another check reports.
    """
    wait = in_words(LONG_WAIT)
    example = unknown[0] if unknown else ""
    return [
        first_problem(
            "limit_keys_full",
            (
                long and not is_missing,
                WARNING,
                f"due actions have waited for longer than {wait} for: {listed([*map(str, long)], most=_NAMES_MOST)}",
                (
                    "raise at_once, rate or burst of the pattern, or schedule fewer actions; "
                    "`scheduled-actions limits list` shows every key, and `scheduled-actions explain ID` what an "
                    "action waits for"
                ),
            ),
            ok=f"no action has waited for longer than {wait} for a limit key",
        ),
        first_problem(
            "limit_keys_unknown",
            (
                unknown,
                WARNING,
                f"queued actions have limit keys that match no pattern: {listed(unknown, most=_NAMES_MOST)}",
                (
                    f'add a pattern to scheduled_actions.toml, such as [limits."{example}"] with at_once = 3; the '
                    "first tick of that build applies it"
                ),
            ),
            ok="every limit key of queued actions matches a pattern",
        ),
        first_problem(
            "limit_slots",
            (
                stale_slots and not is_missing,
                WARNING,
                (
                    f"{counted(stale_slots, 'slot')} of limit keys {'is' if stale_slots == 1 else 'are'} in use "
                    f"although the action has not been running for {wait}"
                ),
                "ticks free such slots within a minute or two: look for maintenance errors in the log of the ticks",
            ),
            ok="every slot in use belongs to a running action",
        ),
    ]


def pauses(*, active: int, endless: Sequence[tuple[str, str]], paused: int) -> Check:
    """Return a warning if a pause without an end is older than a day.

    Args:
        active: Number of active pauses.
        endless: Kind and name of the pauses without an end that are older than a day, the oldest first.
        paused: Number of due actions that pauses hold back; exact below `COUNTED`.
    """
    held = f"{paused:,}{'+' if paused >= COUNTED else ''} due {'action' if paused == 1 else 'actions'}"
    names = [f"{_KINDS.get(kind, kind)} {name}" for kind, name in endless]
    return first_problem(
        "pauses",
        (
            names,
            WARNING,
            f"paused for longer than a day, without an end: {listed(names, most=_NAMES_MOST)}; {held} held back",
            "resume what should run again, or set an end",
        ),
        ok=f"{counted(active, 'active pause')}, {held} held back" if active or paused else "nothing is paused",
    )
