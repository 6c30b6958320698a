"""An endpoint as people see it: all but its secrets, how it has been doing, and what is on its way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduled_actions.core.errors import UrlInvalid
from scheduled_actions.core.retry import Delays
from scheduled_actions.outbound import delivery
from scheduled_actions.webhooks.rules.health import DISABLED_AFTER

if TYPE_CHECKING:
    from datetime import datetime

    from scheduled_actions.core.config import Endpoint as Declared
    from scheduled_actions.webhooks.endpoints.store import EndpointRow, Lane, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An endpoint as it is shown: everything but its secrets and the values of its headers."""

    #: Its id in the database, or its name in the file.
    id: str
    #: `database` or `file`.
    source: str
    team_id: str | None
    #: None for one of the file: its path may be a secret of the operator's.
    url: str | None
    #: Host and port; None where the URL is unset.
    place: str | None
    description: str
    patterns: list[str]
    filter: Any
    #: Whether it gets deliveries: its owner wants them, and nothing has disabled it.
    enabled: bool
    ordering: str
    rate_limit: float | None
    retry: Any
    header_names: list[str]
    created_by: str | None
    created_at: datetime | None
    updated_at: datetime | None
    #: Until when the secret before signs, too.
    previous_secret_until: datetime | None
    #: The first failure since the last success.
    failing_since: datetime | None
    #: From when on a further failure disables it; None while it has not failed for long.
    disabled_by: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None
    lane: Lane


def of_file(name: str, declared: Declared, state: State | None, lane: Lane, *, url: str | None) -> Shown:
    """Return an endpoint of the file as it is shown.

    Args:
        name: Its name there.
        declared: What stands there.
        state: How it has been doing; None: nothing but success.
        lane: What is on its way to it.
        url: As the environment has it; None: it is unset.
    """
    return Shown(
        id=name, source="file", team_id=None, url=None, place=_place(url), description=declared.description,
        patterns=list(declared.patterns), filter=None,
        enabled=declared.enabled and not (state and state.disabled_at), ordering=declared.ordering,
        rate_limit=declared.rate_limit, retry=declared.retry and Delays(declared.retry).as_json(),
        header_names=[], created_by=None, created_at=None,
        updated_at=None, previous_secret_until=None, failing_since=state.failing_since if state else None,
        disabled_by=_disabled_by(state), disabled_at=state.disabled_at if state else None,
        disabled_reason=state.disabled_reason if state else None, lane=lane,
    )  # fmt: skip


def of_row(row: EndpointRow, lane: Lane) -> Shown:
    """Return an endpoint of the database as it is shown, with what is on its way to it."""
    is_rotating = row.previous_secret is not None
    return Shown(
        id=str(row.id), source="database", team_id=row.team_id, url=row.url, place=_place(row.url),
        description=row.description, patterns=row.patterns, filter=row.filter,
        enabled=row.enabled and row.disabled_at is None, ordering=row.ordering, rate_limit=row.rate_limit,
        retry=row.retry, header_names=row.header_names, created_by=row.created_by, created_at=row.created_at,
        updated_at=row.updated_at, previous_secret_until=row.previous_secret_until if is_rotating else None,
        failing_since=row.failing_since, disabled_by=_disabled_by(row), disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason, lane=lane,
    )  # fmt: skip


def _disabled_by(state: State | EndpointRow | None) -> datetime | None:
    if state is None or state.disabled_at is not None or state.clock_started_at is None:
        return None
    return state.clock_started_at + DISABLED_AFTER


def _place(url: str | None) -> str | None:
    try:
        return None if url is None else delivery.check_url(url)
    except UrlInvalid:
        return None
