def canonical_text(written):
    """Return a parsed recurrence in canonical form: one line per property value."""
    stamps = [
        *(("DTSTART", stamp) for stamp in (written.start,) if stamp is not None),
        *(("RDATE", stamp) for stamp in written.dates),
        *(("EXDATE", stamp) for stamp in written.exceptions),
    ]
    lines = [_line(name, stamp) for name, stamp in stamps]
    place = 1 if written.start is not None else 0
    return "\n".join([*lines[:place], f"RRULE:{written.parts.text}", *lines[place:]])


def _line(name, stamp):
    if stamp.is_date:
        return f"{name};VALUE=DATE:{stamp.value}"
    is_local = stamp.zone is not None and stamp.zone.key != "UTC"
    return f"{name}{f';TZID={stamp.zone.key}' if is_local else ''}:{stamp.value}"
