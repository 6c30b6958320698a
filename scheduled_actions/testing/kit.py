"""Give a test its project: a database, handlers, a clock, and ticks that run when the test calls them."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from scheduled_actions.actions.model import UNSET, Unset
from scheduled_actions.actions.search import ActionFilters, SearchBounds, page
from scheduled_actions.core import config
from scheduled_actions.core.action import Action, Status
from scheduled_actions.core.checks import check_instant
from scheduled_actions.outbound import network
from scheduled_actions.registry import Registry
from scheduled_actions.runtime import HEARTBEAT_URL, Runtime, use
from scheduled_actions.testing.clock import Clock, instant
from scheduled_actions.testing.expectations import Expectation, matching
from scheduled_actions.testing.network import CapturedWebhooks, CapturingNetwork

#: Maximum number of ticks at one instant, and seconds in which each may start actions. Without these limits, a handler
#: that snoozes without delay would keep a test running forever.
_TICKS_MOST, _RUN_SECONDS = 10, 5.0
#: Maximum number of instants in one `run_until`.
_STEPS_MOST = 10_000
#: Maximum number of actions of one test.
_ACTIONS_MOST = 100_000
#: Replace the machine's own secrets, and authenticate the test's client.
SECRETS = {"CRON_SECRET": "cron-secret-of-the-test-kit", "ADMIN_TOKEN": "admin-token-of-the-test-kit"}
#: Retention of actions, so that no tick prunes them after the clock was moved by years.
_RETENTION_DAYS = 36500


class Kit:
    """A test's access to its project.

    Args:
        runtime: The project's runtime, with the test's own database.
        network: Captures everything that would leave the process.
    """

    def __init__(self, runtime: Runtime, network: CapturingNetwork) -> None:
        self.runtime = runtime
        self.webhooks = network.webhooks
        #: The captured emails, in the order they were sent.
        self.mails = network.mails
        self.notices = network.notices
        self._answers = network.answers
        self.clock = Clock(runtime.database)

    def answer_get(self, url: str, document: Any, *, status: int = 200) -> None:  # noqa: ANN401 - any JSON
        """Set the JSON answer to conditions that request this URL; without an answer, the connection is refused."""
        self._answers[url] = status, json.dumps(document).encode()

    def actions(self) -> list[Action]:
        """Return all actions of the test, at most 100,000, the oldest first."""
        bounds = SearchBounds(scan_size=_ACTIONS_MOST + 1)
        with self.runtime.database.connection() as connection:
            return page(connection, ActionFilters(), bounds, limit=_ACTIONS_MOST).actions[::-1]

    def run_due(self, at: datetime | date | str | timedelta | None = None) -> list[Action]:
        """Run ticks until no more actions can run; return the settled ones in their current state, the oldest first.

        The result includes actions that wait for a retry (`pending`, with `error_message`) and snoozed actions. The
        misfire policy of a series applies to the occurrences missed between now and `at`, as it does after downtime.

        Args:
            at: Before the first tick, the clock is stopped at this instant, or this long after now (a `timedelta`).
                None: the clock is not changed.

        Raises:
            InvalidArgument: The instant is invalid, or has no offset.
            AssertionError: A due action cannot be started, actions are still due after ten ticks, or the setting
                `enabled` is false.
        """
        if isinstance(at, timedelta):
            self.clock.advance(at)
        elif at is not None:
            self.clock.set(at)
        before = {action.id: _state(action) for action in self.actions()}
        self._tick_until_done()
        return [action for action in self.actions() if _state(action) != before.get(action.id, _UNTOUCHED)]

    def run_until(self, until: datetime | date | str | timedelta) -> list[Action]:
        """Let time pass: stop the clock at each instant up to `until` when an action is due or expires, and run ticks.

        The clock is also stopped when a pause ends, and at `until` at the end.

        Args:
            until: The instant, as for `clock.set`; or the time from now.

        Returns:
            The results of `run_due` at each instant, concatenated in the order of the instants.

        Raises:
            InvalidArgument: The instant is invalid, or has no offset.
            AssertionError: As for `run_due`; or actions were due or expired at ten thousand instants or more.
        """
        now = self.clock.now()
        end = now + until if isinstance(until, timedelta) else instant("until", until)
        settled = self.run_due(now)
        for _ in range(_STEPS_MOST):
            pending = [action for action in self.actions() if action.status is Status.PENDING]
            upcoming = [at for action in pending for at in (action.scheduled_at, action.expires_at) if at is not None]
            upcoming += [pause.ends_at for pause in self.runtime.pauses.find() if pause.ends_at is not None]
            following = min((at for at in upcoming if at > now), default=None)
            if (start := self._next_start()) is not None:
                following = min(start, following or start)
            if following is None or following > end:
                self.clock.set(end)
                return settled
            now = following
            settled += self.run_due(now)
        raise AssertionError(f"actions are due or expire at {_STEPS_MOST:,} or more instants until {end.isoformat()}")

    def assert_scheduled(
        self,
        action_type: str,
        *,
        payload__contains: Any = None,  # noqa: ANN401 - any JSON
        scheduled_at: datetime | date | str | timedelta | None = None,
        count: int | None = None,
        status: str | Unset = UNSET,
        attempts: int | Unset = UNSET,
        result: Any = UNSET,  # noqa: ANN401 - any JSON
        error_message: str | Unset | None = UNSET,
        state: Any = UNSET,  # noqa: ANN401 - any JSON
        team_id: str | Unset | None = UNSET,
        user_id: str | Unset | None = UNSET,
        target_type: str | Unset | None = UNSET,
        target_id: str | Unset | None = UNSET,
        created_by: str | Unset | None = UNSET,
        metadata: Mapping[str, Any] | Unset | None = UNSET,
        priority: int | Unset = UNSET,
        max_attempts: int | Unset | None = UNSET,
        lock_group: str | Unset | None = UNSET,
        dedup_key: str | Unset | None = UNSET,
        schedule_id: UUID | Unset | None = UNSET,
        occurrence_at: datetime | date | str | Unset | None = UNSET,
        deadline_id: UUID | Unset | None = UNSET,
    ) -> list[Action]:
        """Return the scheduled actions that match; fail if their number is not the expected one.

        The arguments from `status` on are exact values of fields of `Action`. An omitted one matches any value; None
        matches only None.

        Args:
            action_type: The exact action type.
            payload__contains: A part of the payload, whose objects have at least these keys, and whose lists have at
                least these elements. None: any payload.
            scheduled_at: The exact instant, or the time after the creation of the action (within a second); None: any.
            count: The expected number, 0 included; None: at least one.
            status: `pending`, `completed`, …
            attempts: The number of attempts so far.
            result: The value that the handler returned.
            error_message: The whole error message.
            state: The state that the handler saved.
            team_id: The team.
            user_id: The user whom the action concerns.
            target_type: The type of the entity.
            target_id: The id of the entity.
            created_by: The creator.
            metadata: All metadata.
            priority: The priority.
            max_attempts: The maximum number of attempts of this action.
            lock_group: The lock group.
            dedup_key: The deduplication key.
            schedule_id: The schedule of the occurrence.
            occurrence_at: The planned instant of the occurrence.
            deadline_id: The deadline to which the action belongs.

        Raises:
            AssertionError: A different number of actions matches; the message lists the first matching actions and, if
                there are too few, the most similar others with their differences.
            InvalidArgument: The instant is invalid, or has no offset.
        """
        columns: dict[str, Any] = {
            "status": status,
            "attempts": attempts,
            "result": result,
            "error_message": error_message,
            "state": state,
            "team_id": team_id,
            "user_id": user_id,
            "target_type": target_type,
            "target_id": target_id,
            "created_by": created_by,
            "metadata": metadata,
            "priority": priority,
            "max_attempts": max_attempts,
            "lock_group": lock_group,
            "dedup_key": dedup_key,
            "schedule_id": schedule_id,
            "occurrence_at": UNSET if occurrence_at is UNSET else check_instant("occurrence_at", occurrence_at),
            "deadline_id": deadline_id,
        }
        expected = Expectation(
            action_type=action_type,
            payload__contains=payload__contains,
            scheduled_at=scheduled_at
            if isinstance(scheduled_at, timedelta)
            else check_instant("scheduled_at", scheduled_at),
            columns={name: value for name, value in columns.items() if value is not UNSET},
        )
        return matching(expected, self.actions(), count=count)

    def _next_start(self) -> datetime | None:
        """Return when the rate of a limit key allows the next start of a queued action; None if no rate delays one."""
        from scheduled_actions.limits import store  # noqa: PLC0415 - most projects have no limits

        return self.runtime.database.do(store.next_start) if self.runtime.config.settings.limits else None

    def _tick_until_done(self) -> None:
        for _ in range(_TICKS_MOST):
            report = self.runtime.processor.tick(caller="the test kit", lingers=False)
            if not report.enabled:
                raise AssertionError("ticks run no actions because the setting `enabled` is false; set it to true")
            # An action that remains although nothing ran waits for another one, or could never end within a tick.
            if report.remaining and not report.processed and report.errors:
                errors = "\n".join(f"  {one['action_type']}: {one['error']}" for one in report.errors)
                raise AssertionError(f"due actions cannot be started:\n{errors}")
            if not report.remaining or not report.processed:
                return
        raise AssertionError(
            f"actions are still due after {_TICKS_MOST} ticks; look for a handler that snoozes without delay"
        )


#: The state of an action that never ran.
_UNTOUCHED: tuple[Any, ...] = (Status.PENDING, 0, ())


def _state(action: Action) -> tuple[Any, ...]:
    """Return the values of an action that change with each settlement."""
    return (action.status, action.attempts, action.history)


@contextmanager
def kit(
    project: Path,
    database_url: str,
    *,
    handlers: Sequence[Callable[..., Any]] | None,
    environ: Mapping[str, str],
) -> Iterator[Kit]:
    """Yield a test's access to its project.

    Until the block ends, the runtime of the process is that of the project, and the network is replaced.

    Args:
        project: The directory with `handlers/` and `scheduled_actions.toml`.
        database_url: A fresh database with the tables.
        handlers: Handlers in place of those in the project's `handlers/`; None: the project's.
        environ: Settings and secrets by the names of their variables; they override the process's environment.
            CRON_SECRET, ADMIN_TOKEN and the encryption key are always those of the kit.
    """
    values = {
        **os.environ,
        **environ,
        **SECRETS,
        "DATABASE_URL": database_url,
        # 32 bytes in base64: the secrets of webhook endpoints in the database are encrypted with it.
        "SCHEDULED_ACTIONS_ENCRYPTION_KEY": "dGVzdC1raXQtb2Ytc2NoZWR1bGVkLWFjdGlvbnMtISE=",
    }
    values.pop(HEARTBEAT_URL, None)
    loaded = config.load(project, values)
    # No ping leaves the test, and an endpoint that a test adds does not exist in the next test.
    settings = replace(
        loaded.settings,
        url=None,
        webhooks=replace(loaded.settings.webhooks, endpoints=dict(loaded.settings.webhooks.endpoints)),
        retention_days=_RETENTION_DAYS,
        retention_failed_days=_RETENTION_DAYS,
        max_run_seconds=min(loaded.settings.max_run_seconds, _RUN_SECONDS),
    )
    own = Runtime(
        replace(loaded, settings=settings),
        registry=_registry(project) if handlers is None else Registry.of(*handlers),
    )
    capturing = CapturingNetwork(CapturedWebhooks(own, values))
    before = use(own)
    try:
        with network.replaced(capturing):
            yield Kit(own, capturing)
    finally:
        use(before)
        own.close()


@cache
def _registry(project: Path) -> Registry:
    """Build the registry from the handlers' current text, once for all tests; the generated file is not used."""
    from scheduled_actions.operations import registry_build  # noqa: PLC0415 - not needed with given handlers

    return Registry(project, registry_build.build(project))
