"""Each user's own nine o'clock: the same time of day in many zones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from scheduled_actions.core import checks as arguments
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.notifications.rules.people import Person
from scheduled_actions.recurrence.phrases import parse_time
from scheduled_actions.recurrence.zones import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable
    from zoneinfo import ZoneInfo

    from scheduled_actions.recurrence import Recurrence

#: Users that one call may schedule for.
USERS_MOST = 1000
_EXPECTED = 'users with their zones: {"ann": "Europe/Berlin"}, or objects of user_id and timezone'


@dataclass(frozen=True, slots=True)
class User:
    """Somebody, and whose wall clock they live by."""

    user_id: str
    zone: ZoneInfo


def parse_clock(text: object) -> time:
    """Return the time of day that `09:00` names.

    Raises:
        InvalidArgument: It is none.
    """
    clock = parse_time(text) if isinstance(text, str) else None
    if clock is None:
        raise InvalidArgument("local_time", text, 'a time of day, such as "09:00"')
    return clock


def parse_users(given: Any, *, usual_zone: str) -> list[User]:  # noqa: ANN401 - it is what is judged
    """Return the users that a caller names, each once.

    Args:
        given: Zones by user id; or a list of `Person`s with an id, and of objects of `user_id` and `timezone`.
        usual_zone: Of those who name none.

    Raises:
        InvalidArgument: One has no id or no such zone; or there are none, or too many; or one comes twice.
    """
    if isinstance(given, Mapping):
        pairs: list[tuple[Any, Any]] = list(given.items())
    elif isinstance(given, list | tuple):
        pairs = [_pair(one) for one in given]
    else:
        raise InvalidArgument("users", type(given).__name__, _EXPECTED)
    if not 1 <= len(pairs) <= USERS_MOST:
        raise InvalidArgument("users", len(pairs), f"1 to {USERS_MOST:,} users")
    users: dict[str, User] = {}
    for position, (user_id, zone) in enumerate(pairs):
        name = f"users[{position}]"
        if not isinstance(user_id, str) or not user_id:
            raise InvalidArgument(f"{name}.user_id", user_id, "a text that names the user")
        arguments.check_text(f"{name}.user_id", user_id, longest=255)
        if user_id in users:
            raise InvalidArgument(f"{name}.user_id", user_id, "named once: this user is there already")
        try:
            users[user_id] = User(user_id, arguments.check_timezone(zone or usual_zone))
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}.timezone", error.value, error.expected) from None
    return list(users.values())


def _pair(given: Any) -> tuple[Any, Any]:  # noqa: ANN401 - it is what is judged
    match given:
        case Person():
            return given.id, given.timezone
        case Mapping() if given.keys() <= {"user_id", "timezone"}:
            return given.get("user_id"), given.get("timezone")
        case _:
            raise InvalidArgument("users", type(given).__name__, _EXPECTED)


def next_local(clock: time, zone: ZoneInfo, now: datetime) -> datetime:
    """Return the next instant after `now` at which the clocks of a zone show a time of day, in UTC.

    One that they skip on that day comes later by the gap; one that they show twice is its first showing.

    Args:
        clock: On the wall.
        zone: Whose.
        now: Aware.
    """
    today = now.astimezone(zone).date()
    days = (datetime.combine(today + timedelta(days=number), clock) for number in range(3))
    return next(at for at in (resolve(wall, zone).at for wall in days) if at > now)


def fits(rule: Recurrence, clock: time, zone: ZoneInfo, first: datetime) -> bool:
    """Whether a rule that begins at `first` keeps to a time of day: what it names first is then, and what follows."""
    found = rule.next_after(first - timedelta(microseconds=1))
    if found is None:
        return False
    # "every 2 hours" begins at the right time, too.
    following = rule.next_after(found.at)
    instants = [found.at] if following is None else [found.at, following.at]
    return all(at == resolve(datetime.combine(at.astimezone(zone).date(), clock), zone).at for at in instants)


def zones_of(users: Iterable[User]) -> dict[str, ZoneInfo]:
    """Return the zones of users, by name: what is the same for all users of one is asked once."""
    return {user.zone.key: user.zone for user in users}
