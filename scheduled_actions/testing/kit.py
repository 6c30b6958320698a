"""One test's project: its database, its handlers, its clock, and the ticks that run when the test says so."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from scheduled_actions import runtime
from scheduled_actions.actions.search import Bounds, Filters, page
from scheduled_actions.core import config
from scheduled_actions.core.action import Status
from scheduled_actions.outbound import network
from scheduled_actions.registry import Registry
from scheduled_actions.testing.captured import CapturedWebhooks
from scheduled_actions.testing.clock import Clock, check_aware
from scheduled_actions.testing.expectations import Expectation, matching
from scheduled_actions.testing.network import NoNetwork, as_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from scheduled_actions.core.action import Action
    from scheduled_actions.runtime import Runtime

#: Ticks of one instant, and seconds in which each starts something: a handler that snoozes for no time at all would
#: never let it end.
_TICKS_MOST, _RUN_SECONDS = 10, 5.0
#: Instants of one `run_until`.
_STEPS_MOST = 10_000
#: Actions of one test that are looked at.
_ACTIONS_MOST = 100_000
_WHOLE = Bounds(walked=_ACTIONS_MOST + 1)
#: What no test should share with the machine it runs on; opens the routes to the test's own client.
SECRETS = {"CRON_SECRET": "cron-secret-of-the-test-kit", "ADMIN_TOKEN": "admin-token-of-the-test-kit"}
#: 32 bytes in base64: the secrets of webhook endpoints in the database are encrypted with it.
_ENCRYPTION_KEY = "dGVzdC1raXQtb2Ytc2NoZWR1bGVkLWFjdGlvbnMtISE="
#: What a test did a year ago by the database's clock is still there to be looked at.
_KEPT_DAYS = 36500


class Kit:
    """What a test does with its project.

    Args:
        runtime: The project's parts, on a database of the test's own.
        webhooks: What was delivered.
        taken: What else would have left the process.
    """

    def __init__(self, runtime: Runtime, webhooks: CapturedWebhooks, taken: NoNetwork) -> None:
        self.runtime = runtime
        self.webhooks = webhooks
        #: In the order they were sent.
        self.mails = taken.mails
        self.notices = taken.notices
        self._answers = taken.answers
        self.clock = Clock(runtime.database)

    def answer_get(self, url: str, document: Any, *, status: int = 200) -> None:  # noqa: ANN401 - any JSON
        """Answer conditions that ask this URL with a JSON document from now on; without it nothing answers there."""
        self._answers[url] = as_answer(document, status)

    def actions(self) -> list[Action]:
        """Return all actions of the test, the oldest first."""
        with self.runtime.database.connection() as connection:
            return page(connection, Filters(), _WHOLE, limit=_ACTIONS_MOST).actions[::-1]

    def run_due(self, at: datetime | timedelta | None = None) -> list[Action]:
        """Run ticks until nothing is due; return the actions that were settled, as they are now, the oldest first.

        What failed and waits for its retry is among them, `pending` with its `error_message`, and so is what was
        snoozed. What a series missed between now and `at` is judged by its misfire policy, as after a downtime.

        Args:
            at: Stops the clock at this instant first; a timedelta: so much later than now. None: as the clock stands.

        Raises:
            InvalidArgument: The instant has no zone.
            AssertionError: Something due cannot be started, or ten ticks did not settle it.
        """
        if isinstance(at, timedelta):
            self.clock.advance(at)
        elif at is not None:
            self.clock.set(at)
        before = {one.id: _state(one) for one in self.actions()}
        self._tick_until_done()
        return [one for one in self.actions() if _state(one) != before.get(one.id, _UNTOUCHED)]

    def run_until(self, until: datetime | timedelta) -> list[Action]:
        """Let time pass: stop the clock at each instant something is due up to `until`, and run it then.

        Returns:
            What `run_due` answered of each instant, one after the other: retries and occurrences each in their turn.

        Raises:
            InvalidArgument: The instant has no zone.
            AssertionError: As `run_due`; or there were more than ten thousand instants.
        """
        now = self.clock.now()
        end = now + until if isinstance(until, timedelta) else until
        check_aware(end)
        settled = self.run_due(now)
        for _ in range(_STEPS_MOST):
            upcoming = [one.scheduled_at for one in self.actions() if one.status is Status.PENDING]
            following = min((at for at in upcoming if at > now), default=None)
            if following is None or following > end:
                self.clock.set(end)
                return settled
            now = following
            settled += self.run_due(now)
        message = f"more than {_STEPS_MOST:,} instants at which something is due before {end.isoformat()}"
        raise AssertionError(message)

    def assert_scheduled(
        self,
        action_type: str,
        *,
        payload__contains: Any = None,  # noqa: ANN401 - any JSON
        scheduled_at: datetime | timedelta | None = None,
        count: int | None = None,
        **columns: Any,  # noqa: ANN401 - fields of Action
    ) -> list[Action]:
        """Return the actions of a type that were scheduled so, whatever has become of them; fail if there are none.

        Args:
            action_type: Exactly this type.
            payload__contains: Objects hold at least these keys, lists at least these elements.
            scheduled_at: The instant, or how long after its creation.
            count: How many there should be, 0 included; None: at least one.
            columns: Other fields of `Action`: `status="pending"`, `team_id="acme"`, `lock_group="invoice"`.

        Raises:
            AssertionError: There are none, or not as many; the message tells what was scheduled instead.
            InvalidArgument: `Action` has no such field, or the instant has no zone.
        """
        expected = Expectation(
            action_type=action_type, payload__contains=payload__contains, scheduled_at=scheduled_at, columns=columns
        )
        return matching(expected, self.actions(), count=count)

    def _tick_until_done(self) -> None:
        for _ in range(_TICKS_MOST):
            report = self.runtime.processor.tick(caller="the test kit", lingers=False)
            if not report.enabled:
                raise AssertionError("nothing runs while the setting `enabled` is false")
            if report.remaining == 0:
                return
            if report.processed == 0:
                # What is left waits for another, or could never end within a tick.
                if report.errors:
                    told = "\n".join(f"  {one['action_type']}: {one['error']}" for one in report.errors)
                    message = f"what is due cannot be started:\n{told}"
                    raise AssertionError(message)
                return
        message = f"something is still due after {_TICKS_MOST} ticks: does a handler snooze for no time?"
        raise AssertionError(message)


#: Of an action that nothing has happened to.
_UNTOUCHED: tuple[Any, ...] = (Status.PENDING, 0, ())


def _state(action: Action) -> tuple[Any, ...]:
    """Return what changes with each settlement."""
    return (action.status, action.attempts, action.history)


@contextmanager
def kit(
    project: Path,
    database_url: str,
    *,
    handlers: Sequence[Callable[..., Any]] | None,
    environ: Mapping[str, str],
) -> Iterator[Kit]:
    """Give a test its project, as the process's own, on a database of its own; nothing it does reaches the network.

    Args:
        project: The directory of `handlers/` and `scheduled_actions.toml`.
        database_url: A fresh database with the tables.
        handlers: In place of those of the project's `handlers/`.
        environ: Settings and secrets, by the names of their variables; they win over the process's own.
    """
    values = {
        **os.environ,
        **environ,
        **SECRETS,
        "DATABASE_URL": database_url,
        "SCHEDULED_ACTIONS_ENCRYPTION_KEY": _ENCRYPTION_KEY,
    }
    values.pop(runtime.HEARTBEAT_URL, None)
    loaded = config.load(project, values)
    # No ping leaves the test, and no endpoint that a test adds is there for the next one.
    webhooks = replace(loaded.settings.webhooks, endpoints=dict(loaded.settings.webhooks.endpoints))
    settings = replace(
        loaded.settings,
        url=None,
        webhooks=webhooks,
        retention_days=_KEPT_DAYS,
        retention_failed_days=_KEPT_DAYS,
        max_run_seconds=min(loaded.settings.max_run_seconds, _RUN_SECONDS),
    )
    registry = _registry(project) if handlers is None else Registry.of(*handlers)
    made = runtime.Runtime(replace(loaded, settings=settings), registry=registry)
    captured = CapturedWebhooks(made, values)
    taken = NoNetwork(captured)
    before = runtime.use(made)
    try:
        with network.replaced(taken):
            yield Kit(made, captured, taken)
    finally:
        runtime.use(before)
        made.close()


@cache
def _registry(project: Path) -> Registry:
    """Return the handlers as their text is now, once for all tests; the generated file is neither read nor written."""
    from scheduled_actions.operations import registry_build  # noqa: PLC0415 - tests with handlers of their own need no source

    built = registry_build.build(project)
    return Registry(project, built.handlers, built.options, built.functions)
