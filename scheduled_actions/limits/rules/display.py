"""How limits are shown: rates in words, and how far queues are counted."""

#: Maximum number of actions of a queue, and of slots and queued actions of a pattern, that are counted. A page of a
#: list counts a hundred queues, whose rows may be anywhere in the table.
WAITING_MOST = 1_000

#: Units of rates, in seconds.
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


#: Maximum number of units in the text of a rate.
_MAX_UNITS = 1000


def rate_text(interval_seconds: float) -> str:
    """Return a rate such as `100 per minute` or `1 per 56 hours`, in the shortest unit with whole numbers.

    Args:
        interval_seconds: Seconds between two starts.
    """
    for units in range(1, _MAX_UNITS):
        for unit, seconds in _UNITS.items():
            starts = units * seconds / interval_seconds
            if round(starts) >= 1 and abs(starts - round(starts)) < 1e-6 * starts:
                return f"{round(starts)} per {unit if units == 1 else f'{units} {unit}s'}"
    return f"1 per {interval_seconds:g} seconds"
