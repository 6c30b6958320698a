"""Play the demo: a small shop's orders, from scheduling to settlement."""

import csv
import http.client
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from importlib import resources
from itertools import pairwise
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from psycopg import sql

from scheduled_actions import (
    explain_action,
    get_action,
    get_schedule,
    list_actions,
    pause_schedule,
    retry_action,
    schedule_action,
    schedule_actions,
    schedule_recurring_action,
)
from scheduled_actions.local import cron, server
from scheduled_actions.local.demo.receiver import Receiver
from scheduled_actions.local.demo.report import Report
from scheduled_actions.local.project import LocalProject
from scheduled_actions.recurrence.compiling import compile_recurrence
from scheduled_actions.schedules.model import Schedule

#: The endpoints of the shop's webhooks: the second answers its first request with 500.
WAREHOUSE, ACCOUNTS = "warehouse", "accounts"
#: Maximum wait for the result of a later tick; the slowest, a webhook's first retry, takes five seconds at most.
_PATIENCE_SECONDS = 15.0
_LAMP = "desk lamp"
#: In this zone, clocks go back on 1 November 2026 at two o'clock.
_NEW_YORK = ZoneInfo("America/New_York")
_SCHEDULE = "count"
#: Replaces the clock of all statements with a fixed instant, as the test kit does.
_CLOCK = "create or replace function scheduled_actions_now() returns timestamptz language sql stable as {}"
_NEXT = """\
scheduled-actions init DIR    create a project; its README.md explains how to write a handler and deploy
scheduled-actions dev         run it on your machine: http://127.0.0.1:8000/dashboard, /docs for the API
scheduled-actions cron-setup  set up the cron of a deployment
scheduled-actions doctor      check the installation; suggests a fix for each problem
scheduled-actions --help      list all commands"""


def _read_orders() -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath("orders.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@dataclass(slots=True)
class Story:
    """The demo in chapters; each chapter relies on the previous ones."""

    #: Prints the story.
    report: Report
    #: The running project, whose runtime is this process's own.
    project: LocalProject
    #: Receives the project's webhooks, at `receiver_url`.
    receiver: Receiver
    receiver_url: str
    _orders: list[dict[str, str]] = field(default_factory=_read_orders)
    #: The ids of the invoices that are due, and of the one that is due tomorrow.
    _invoices: list[UUID] = field(default_factory=list)
    _tomorrow: UUID | None = None

    def play(self) -> None:
        """Play all chapters.

        Raises:
            DemoCheckFailed: A claim is false.
        """
        status, body = _request("GET", self.project.server.url, "/readyz")
        self.report.show("", body, ("the server is ready for pings", status, 200))
        chapters: dict[str, Callable[[], None]] = {
            "Schedule: an action is a row in Postgres": self._schedule_orders,
            "Deduplicate: the same intent twice is one action": self._deduplicate,
            "Tick: a cron pings the endpoint, which runs the due actions": self._tick,
            "Lock group: one action at a time, the earliest first": self._keep_in_order,
            "Transaction: the handler's own table, its follow-up and its settlement, all or nothing": (
                self._charge_exactly_once
            ),
            "Webhooks: one event, two endpoints, deliveries signed and retried independently": self._deliver_webhooks,
            "Failure: a failed action stays failed until a person retries it": self._retry_by_hand,
            "Recurrence: a series that survives a failure and missed ticks": self._recur,
            "Result": self._summarise,
            "Next steps": lambda: self.report.show("", _NEXT),
        }
        for title, chapter in chapters.items():
            self.report.step(title)
            chapter()

    def _schedule_orders(self) -> None:
        last, due = self._orders[-1], len(self._orders) - 1
        self._invoices = [one.id for one in schedule_actions([_invoice(order) for order in self._orders[:-1]])]
        self.report.show(
            f"schedule_actions(an invoice:write for each of the first {due} lines of orders.csv)",
            "",
            ("each action has its own id", len(set(self._invoices)), due),
        )
        self._tomorrow = schedule_action("invoice:write", last, scheduled_at=timedelta(days=1)).id
        counts = self._counts()
        self.report.show(
            f'schedule_action("invoice:write", order {last["number"]}, scheduled_at=timedelta(days=1))',
            "",
            ("all actions are pending", counts["pending"], due + 1),
            ("all but tomorrow's action are due", counts["due"], due),
        )

    def _deduplicate(self) -> None:
        first = self._orders[0]
        first["address"] = "5 Mill Lane"
        second = schedule_action(**_invoice(first))
        self.report.show(
            f"schedule the invoice of order {first['number']} again, now to {first['address']}",
            "",
            ("the new action was merged", second.deduplicated, True),
            ("the id is that of the pending action", second.id, self._invoices[0]),
            ("no row was added", self._counts()["pending"], len(self._orders)),
        )

    def _tick(self) -> None:
        due, url = len(self._orders) - 1, self.project.server.url
        rejected = cron.ping(server.HOST, self.project.server.port, "x" * 32, timeout_seconds=10)
        self.report.show(
            f"GET {url}{cron.PATH} with a wrong secret",
            json.dumps(dict(rejected.body)),
            ("the ping is rejected", rejected.status, 401),
            ("nothing ran", self._counts()["due"], due),
        )
        answer = self.project.ping()
        self.report.show(f"GET {url}{cron.PATH} with CRON_SECRET as x-cron-secret", json.dumps(dict(answer.body)))
        first = self._orders[0]
        text = (self.project.config.project / f"invoice-{first['number']}.txt").read_text(encoding="utf-8")
        self.report.show(
            "",
            text,
            ("the ping is answered with 200", answer.status, 200),
            ("every due action succeeded", answer.body.get("succeeded"), due),
            (
                "the results contain the totals of the orders",
                {action.payload["number"]: action.result["total"] for action in map(get_action, self._invoices)},
                {order["number"]: str(_total(order)) for order in self._orders[:-1]},
            ),
            ("the merged action has the later address", first["address"] in text, True),
        )

    def _keep_in_order(self) -> None:
        lamps = [order for order in self._orders if order["article"] == _LAMP]
        self.report.show(f'stock:book for the {len(lamps)} orders of a {_LAMP}, each with lock_group="{_LAMP}"')
        for order in lamps:
            schedule_action("stock:book", order, lock_group=_LAMP)
        self._ping("succeeded", len(lamps))
        text = (self.project.config.project / "ledger.jsonl").read_text(encoding="utf-8")
        ledger = [json.loads(line) for line in text.splitlines()]
        self.report.show(
            "",
            "\n".join(f"{one['number']} took {one['ended'] - one['began']:.3f} s" for one in ledger),
            (
                "in the order of scheduling",
                [one["number"] for one in ledger],
                [order["number"] for order in lamps],
            ),
            (
                "never two bookings at the same time",
                all(before["ended"] <= after["began"] for before, after in pairwise(ledger)),
                True,
            ),
        )

    def _charge_exactly_once(self) -> None:
        order = self._orders[1]
        payload = {"number": order["number"], "amount": str(_total(order))}
        self.report.show(f'schedule_action("payment:charge", {json.dumps(payload)}); the handler fails halfway')
        charge = schedule_action("payment:charge", payload).id
        self._ping("retried", 1)
        self.report.show(
            "",
            f"the stored error: {get_action(charge).error_message}",
            ("no charge is in the table", self._charges(), []),
            ("no event has been sent", self.receiver.received, []),
        )
        self.report.show("ping until the retry, a second later, is due")
        endpoints = len((WAREHOUSE, ACCOUNTS))
        self._ping_until(lambda: len(self.receiver.received) >= endpoints, "both endpoints received the event")
        self.report.check(
            ("the charge took two attempts", get_action(charge).attempts, 2),
            ("one charge is in the table", self._charges(), [(order["number"], _total(order))]),
        )

    def _deliver_webhooks(self) -> None:
        receiver, order = self.receiver, self._orders[1]
        self.report.show(f"ping until the delivery to {ACCOUNTS}, which answered 500, is retried")
        self._ping_until(
            lambda: [one.status for one in receiver.at(ACCOUNTS)] == [500, 200], f"{ACCOUNTS} answered 500, then 200"
        )
        content = receiver.at(WAREHOUSE)[0].content
        self.report.show(
            "",
            json.dumps(content),
            (f"{WAREHOUSE} received the event once", [one.status for one in receiver.at(WAREHOUSE)], [200]),
            ("every request was signed", all(one.content is not None for one in receiver.received), True),
            (
                "the retry has the id of its first attempt",
                len({one.webhook_id for one in receiver.at(ACCOUNTS)}),
                1,
            ),
            (
                "the event contains the paid amount",
                (content["event"], content["entity_id"], content["data"]["amount"]),
                ("order:paid", order["number"], str(_total(order))),
            ),
        )
        headers = {
            "webhook-id": "msg_forged",
            "webhook-timestamp": str(int(time.time())),
            "webhook-signature": "v1,bm90IHRoZSBzaWduYXR1cmUgb2YgYW55Ym9keSBoZXJl",
        }
        status, _ = _request("POST", self.receiver_url, f"/{WAREHOUSE}", json.dumps(content).encode(), headers)
        self.report.show(
            "post the same body with a forged signature", "", ("the receiver rejects the request", status, 401)
        )

    def _retry_by_hand(self) -> None:
        self.report.show(
            'schedule_action("supplier:order", {"article": "tea tin"}), while the supplier does not answer'
        )
        action_id = schedule_action("supplier:order", {"article": "tea tin"}).id
        self._ping("failed", 1)
        failed = get_action(action_id)
        self.report.show(
            "",
            f"error_message: {failed.error_message}",
            ("the only attempt is used up", (failed.status, failed.attempts), ("failed", 1)),
        )
        self.report.show('the supplier opens; retry_action(id, by="ann")')
        (self.project.config.project / "supplier-is-open").touch()
        retry_action(action_id, by="ann")
        self._ping("succeeded", 1)
        retried = get_action(action_id)
        self.report.check(
            ("the action is completed", retried.status, "completed"),
            (
                "the history names the user who retried the action",
                [one["by"] for one in retried.history if "by" in one],
                ["ann"],
            ),
        )

    def _recur(self) -> None:
        """Play a series with the database's clock stopped; the clock remains stopped afterwards."""
        runtime, every = self.project.runtime, timedelta(minutes=10)
        start = datetime(2026, 10, 30, 12, tzinfo=_NEW_YORK)
        rule = compile_recurrence("30 1 * * *", timezone=_NEW_YORK.key, anchor=start)
        found = [
            (one.at.astimezone(_NEW_YORK), one.remarks) for one in rule.between(start, start + timedelta(3), limit=10)
        ]
        lines = ["  ".join([at.isoformat(" "), *(f"({remark})" for remark in remarks)]) for at, remarks in found]
        self.report.show(
            '"30 1 * * *" in New York, around the night when the clocks go back',
            "\n".join([rule.description, *lines]),
            (
                "one occurrence every day, even when 01:30 occurs twice",
                [at.date().isoformat() for at, _ in found],
                ["2026-10-31", "2026-11-01", "2026-11-02"],
            ),
        )
        schedule = _schedule_count()
        planned = list(runtime.schedule_rules.upcoming(schedule, count=3))
        self.report.show(
            'schedule_recurring_action("stock:count", {"article": "desk lamp"}, "every 10 minutes", name="count")',
            "\n".join(
                [
                    runtime.schedule_rules.rule_of(schedule).description,
                    *(f"{at:%Y-%m-%d %H:%M:%S}Z" for at in planned),
                ]
            ),
            ("the occurrences are ten minutes apart", {late - early for early, late in pairwise(planned)}, {every}),
        )
        self.report.show(
            "call the function again, as an application does at each start",
            "",
            ("the schedule is unchanged", _schedule_count(), schedule),
        )
        for at in planned[:2]:
            action = get_schedule(_SCHEDULE).next_action_id
            self._ping_at(at, "succeeded")
            if action is not None:
                self.report.show("", f"counted: {get_action(action).result}")
        self.report.check(
            (
                "the claim of each occurrence planned the next one",
                get_schedule(_SCHEDULE).next_occurrence_at,
                planned[2],
            )
        )
        self._fail_and_catch_up(planned[2], following=planned[2] + every)

    def _fail_and_catch_up(self, at: datetime, *, following: datetime) -> None:
        locked = self.project.config.project / "store-is-locked"
        self.report.show("the store is locked")
        locked.touch()
        self._ping_at(at, "failed")
        locked.unlink()
        before = get_schedule(_SCHEDULE)
        self.report.check(("the series continues after the failure", before.next_occurrence_at, following))
        self.report.show("no ping for an hour")
        self._ping_at(following + timedelta(hours=1), "succeeded")
        after = get_schedule(_SCHEDULE)
        self.report.check(
            (
                "one catch-up occurrence ran, six were missed",
                (after.executions, after.missed),
                (before.executions + 1, 6),
            )
        )
        paused = pause_schedule(_SCHEDULE, reason="the shop is closed")
        self.report.show(
            'pause_schedule("count", reason="the shop is closed")',
            "",
            ("no occurrence is planned", (paused.status, paused.next_action_id), ("paused", None)),
        )

    def _summarise(self) -> None:
        counts = {status: count for status, count in self._counts().items() if count}
        self.report.show("scheduled-actions counts", json.dumps(counts))
        lamps = sum(order["article"] == _LAMP for order in self._orders)
        # All invoices but one, the bookings, the charge, its event with two deliveries, the supplier's order, three
        # counts of stock.
        expected = {"completed": len(self._orders) - 1 + lamps + 1 + 3 + 1 + 3, "failed": 1, "pending": 1}
        self.report.check(("everything is completed except tomorrow's invoice and the failed count", counts, expected))
        (failed,) = list_actions(status="failed")
        for action_id, code in ((self._tomorrow, "not_due"), (failed.id, "failed")):
            found = explain_action(str(action_id))
            self.report.show(
                f"scheduled-actions explain {action_id}",
                f"{found.code}: {found.sentence}\n  {found.remedy}",
                (f"the explanation has the code {code}", found.code, code),
            )

    def _counts(self) -> dict[str, int]:
        counts = self.project.runtime.action_operations.exact_counts()
        return {status.value: number for status, number in counts.by_status.items()} | {"due": counts.due}

    def _charges(self) -> list[tuple[Any, ...]]:
        with self.project.runtime.database.connection() as connection:
            exists = connection.execute("select to_regclass('demo_charges') is not null").fetchone() == (True,)
            return connection.execute("select * from demo_charges").fetchall() if exists else []

    def _ping(self, count: str, expected: int, *, command: str = "ping") -> None:
        """Tick once, and check one of the tick's counts."""
        answer = self.project.ping()
        self.report.show(
            command,
            answer.problem or cron.summary(answer.body) or "nothing was due",
            (f"{expected} {count}", answer.body.get(count), expected),
        )

    def _ping_at(self, at: datetime, count: str) -> None:
        """Stop the database's clock at an instant, tick once, and check that one action had this outcome."""
        with self.project.runtime.database.connection() as connection:
            connection.execute(sql.SQL(_CLOCK).format(sql.Literal(f"select {at.isoformat()!r}::timestamptz")))
        self._ping(count, 1, command=f"it is {at:%H:%M:%S}: ping")

    def _ping_until(self, holds: Callable[[], bool], claim: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.25)
            answer = self.project.ping()
            self.report.show("", answer.problem or cron.summary(answer.body) or "")
        self.report.check((claim, holds(), True))


def _invoice(order: dict[str, str]) -> dict[str, Any]:
    dedup = {"dedup_key": f"invoice:{order['number']}", "dedup_window": 60}
    return {"action_type": "invoice:write", "payload": order, **dedup}


def _schedule_count() -> Schedule:
    return schedule_recurring_action("stock:count", {"article": _LAMP}, "every 10 minutes", name=_SCHEDULE)


def _total(order: dict[str, str]) -> Decimal:
    return int(order["quantity"]) * Decimal(order["unit_price"])


def _request(
    method: str, base: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
