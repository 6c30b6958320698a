"""The story itself: a small shop's orders, from scheduled to settled."""

from __future__ import annotations

import csv
import http.client
import json
import time
from datetime import timedelta
from decimal import Decimal
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scheduled_actions import explain_action, get_action, list_actions, retry_action, schedule_action, schedule_actions
from scheduled_actions.actions.management import Management
from scheduled_actions.local import cron as local_cron
from scheduled_actions.local import server as local_server
from scheduled_actions.local.demo.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from uuid import UUID

    from scheduled_actions.local.demo.receiver import Receiver
    from scheduled_actions.local.demo.report import Report
    from scheduled_actions.local.project import LocalProject

#: Where the shop's webhooks go: the second answers its first one with 500.
WAREHOUSE, ACCOUNTS = "warehouse", "accounts"
#: Longest wait for what a next tick brings; the longest there is, a webhook's first retry, takes five seconds at most.
_PATIENCE_SECONDS = 15.0
_BETWEEN_PINGS_SECONDS = 0.25
_LAMP = "desk lamp"
_NEXT = """\
make run                      the same on your machine, to stay: http://127.0.0.1:8000/dashboard, /docs for the API
docs/tutorial.md              the first handler of your own
docs/how-to/                  deploy it, set up its cron, recur, wait, remind, send webhooks
docs/reference/               every setting, command, route, error, and why an action has not run
scheduled-actions doctor      whether all is well, and what to do where it is not"""


class Story:
    """The chapters, in order; each relies on those before.

    Args:
        report: Where it is told.
        project: The running project, whose runtime is this process's own.
        receiver: Who gets its webhooks.
    """

    def __init__(self, report: Report, project: LocalProject, receiver: Receiver) -> None:
        self._report = report
        self._project = project
        self._receiver = receiver
        self._directory: Path = project.config.project
        self._orders = _read_orders()
        self._invoices: list[UUID] = []
        self._tomorrows: UUID | None = None

    def tell(self) -> None:
        """Go through all of it.

        Raises:
            Disappointed: Something was not as it had to be.
        """
        self._begin()
        self._schedule()
        self._deduplicate()
        self._tick()
        self._keep_in_order()
        self._charge_exactly_once()
        self._deliver_again()
        self._fail_and_mend()
        self._go_round()
        self._count()
        self._look_on()

    def _begin(self) -> None:
        status, body = _get(f"{self._project.server.url}/readyz")
        self._report.shows(body)
        self._report.check("it is ready to be pinged", status, 200)

    def _schedule(self) -> None:
        report, last = self._report, self._orders[-1]
        report.step("Schedule: an action is a row in Postgres")
        report.does(f"schedule_actions(an invoice:write for each of the {len(self._orders)} lines of orders.csv)")
        scheduled = schedule_actions([self._invoice(order) for order in self._orders[:-1]])
        self._invoices = [one.id for one in scheduled]
        report.check("each has an id of its own", len({one.id for one in scheduled}), len(self._orders) - 1)
        report.does(f'schedule_action("invoice:write", order {last["number"]}, scheduled_at=timedelta(days=1))')
        self._tomorrows = schedule_action("invoice:write", last, scheduled_at=timedelta(days=1)).id
        counts = self._counts()
        report.check("all of them wait", counts["pending"], len(self._orders))
        report.check("all but tomorrow's are due", counts["due"], len(self._orders) - 1)

    def _invoice(self, order: dict[str, str]) -> dict[str, Any]:
        return {
            "action_type": "invoice:write",
            "payload": order,
            "dedup_key": f"invoice:{order['number']}",
            "dedup_window": 60,
        }

    def _deduplicate(self) -> None:
        report, first = self._report, self._orders[0]
        report.step("Deduplicate: the same intent twice is one action")
        first["address"] = "5 Mill Lane"
        report.does(f"the invoice of order {first['number']} again, for the customer has moved to {first['address']}")
        again = schedule_action(**self._invoice(first))
        report.check("it was merged", again.deduplicated, expected=True)
        report.check("into the one that waited", again.id, self._invoices[0])
        report.check("there is not one row more", self._counts()["pending"], len(self._orders))

    def _tick(self) -> None:
        report, due = self._report, len(self._orders) - 1
        report.step("Tick: a cron pings the endpoint, which runs what is due")
        report.does(f"GET {self._project.server.url}{local_cron.PATH} with a wrong secret")
        refused = local_cron.ping(local_server.HOST, self._project.server.port, "x" * 32, timeout_seconds=10)
        report.shows(json.dumps(dict(refused.body)))
        report.check("it is refused", refused.status, 401)
        report.check("nothing ran", self._counts()["due"], due)
        report.does(f"GET {self._project.server.url}{local_cron.PATH} with CRON_SECRET as x-cron-secret")
        answer = self._project.ping()
        report.shows(json.dumps(dict(answer.body)))
        report.check("it is answered with 200", answer.status, 200)
        report.check("every due action succeeded", answer.body.get("succeeded"), due)
        found = {action.payload["number"]: action.result["total"] for action in map(get_action, self._invoices)}
        totals = {order["number"]: str(_total(order)) for order in self._orders[:-1]}
        report.check("the results are the totals of the orders", found, totals)
        text = (self._directory / f"invoice-{self._orders[0]['number']}.txt").read_text(encoding="utf-8")
        report.shows(text)
        report.check("the merged one has the later address", self._orders[0]["address"] in text, expected=True)

    def _keep_in_order(self) -> None:
        report = self._report
        lamps = [order for order in self._orders if order["article"] == _LAMP]
        report.step("Lock group: one at a time, the oldest first")
        report.does(f'stock:book for the {len(lamps)} orders of a {_LAMP}, each with lock_group="{_LAMP}"')
        for order in lamps:
            schedule_action("stock:book", order, lock_group=_LAMP)
        self._ping("succeeded", len(lamps))
        lines = (self._directory / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
        ledger = [json.loads(line) for line in lines]
        report.shows("\n".join(f"{one['number']} took {one['ended'] - one['began']:.3f} s" for one in ledger))
        report.check("in their order", [one["number"] for one in ledger], [order["number"] for order in lamps])
        apart = all(before["ended"] <= after["began"] for before, after in pairwise(ledger))
        report.check("never two side by side", apart, expected=True)

    def _charge_exactly_once(self) -> None:
        report, order = self._report, self._orders[1]
        payload = {"number": order["number"], "amount": str(_total(order))}
        report.step("Transaction: the handler's own table, its follow-up and its settlement, all or nothing")
        report.does(f'schedule_action("payment:charge", {json.dumps(payload)}); the handler breaks off half-way')
        charge = schedule_action("payment:charge", payload).id
        self._ping("retried", 1)
        report.shows(f"the error kept: {get_action(charge).error_message}")
        report.check("no charge is in the table", self._charges(), [])
        report.check("no event has been sent", self._receiver.received, [])
        report.does("ping until the retry, a second later, is due")
        self._ping_until(
            lambda: len(self._receiver.received) >= len((WAREHOUSE, ACCOUNTS)), "both endpoints heard of it"
        )
        report.check("it took two attempts", get_action(charge).attempts, 2)
        report.check("one charge is in the table", self._charges(), [(order["number"], _total(order))])

    def _deliver_again(self) -> None:
        report, receiver = self._report, self._receiver
        report.step("Webhooks: one event, two endpoints, each delivery signed and retried on its own")
        report.does(f"ping until {ACCOUNTS}, which answered 500, is tried again")
        self._ping_until(
            lambda: [one.status for one in receiver.at(ACCOUNTS)] == [500, 200], f"{ACCOUNTS} said 500, then 200"
        )
        report.check(f"{WAREHOUSE} heard of it once", [one.status for one in receiver.at(WAREHOUSE)], [200])
        report.check("every request was signed", {one.is_signed for one in receiver.received}, {True})
        ids = {one.webhook_id for one in receiver.at(ACCOUNTS)}
        report.check("the retry has the id of its first attempt", len(ids), 1)
        content = receiver.at(WAREHOUSE)[0].content
        report.shows(json.dumps(content))
        told = (content["event"], content["entity_id"], content["data"]["amount"])
        order = self._orders[1]
        report.check("it says what was paid", told, ("order:paid", order["number"], str(_total(order))))
        report.does("somebody else posts the same words with a signature made up")
        status = _post_forged(receiver.url(WAREHOUSE), json.dumps(content).encode())
        report.check("the receiver does not believe it", status, 401)

    def _fail_and_mend(self) -> None:
        report = self._report
        report.step("Failure: what needs a person waits for one")
        report.does('schedule_action("supplier:order", {"article": "tea tin"}), while the supplier does not answer')
        action_id = schedule_action("supplier:order", {"article": "tea tin"}).id
        self._ping("failed", 1)
        failed = get_action(action_id)
        report.shows(f"error_message: {failed.error_message}")
        report.check("its only attempt is used up", (failed.status, failed.attempts), ("failed", 1))
        report.does('the supplier opens, and somebody calls retry_action(id, by="ann")')
        (self._directory / "supplier-is-open").touch()
        retry_action(action_id, by="ann")
        self._ping("succeeded", 1)
        mended = get_action(action_id)
        report.check("now it is completed", mended.status, "completed")
        report.check("its history names who did that", [one["by"] for one in mended.history if "by" in one], ["ann"])

    def _go_round(self) -> None:
        self._report.step("Recurrence: a series that neither failures nor silence end")
        Series(self._report, self._project).tell()

    def _count(self) -> None:
        report = self._report
        report.step("In the end")
        report.does("scheduled-actions counts")
        counts = {status: count for status, count in self._counts().items() if count}
        report.shows(json.dumps(counts))
        lamps = sum(order["article"] == _LAMP for order in self._orders)
        # The invoices but one, bookings, the charge, its event with two deliveries, the supplier's order, the counts.
        completed = len(self._orders) - 1 + lamps + 1 + 3 + 1 + 3
        expected = {"completed": completed, "failed": 1, "pending": 1}
        report.check(
            "everything is done but tomorrow's invoice, and the count that nobody could make", counts, expected
        )

    def _look_on(self) -> None:
        report = self._report
        for action_id, code in ((self._tomorrows, "not_due"), (self._failed_count(), "failed")):
            report.does(f"scheduled-actions explain {action_id}")
            found = explain_action(str(action_id))
            report.shows(f"{found.code}: {found.sentence}\n  {found.remedy}")
            report.check(f"it says why: {code}", found.code, code)
        report.step("Where to look next")
        report.shows(_NEXT)

    def _failed_count(self) -> UUID:
        (failed,) = list_actions(status="failed")
        return failed.id

    def _counts(self) -> dict[str, int]:
        runtime = self._project.runtime
        found = Management(runtime.database, lambda: runtime.scheduler).exact_counts()
        return {status.value: number for status, number in found.by_status.items()} | {"due": found.due}

    def _charges(self) -> list[tuple[Any, ...]]:
        with self._project.runtime.database.connection() as connection:
            is_there = connection.execute("select to_regclass('demo_charges') is not null").fetchone() == (True,)
            return connection.execute("select * from demo_charges").fetchall() if is_there else []

    def _ping(self, count: str, expected: int) -> None:
        """Tick once, and check one of its counts."""
        self._report.does("ping")
        answer = self._project.ping()
        self._report.shows(answer.problem or local_cron.summary(answer.body) or "nothing was due")
        self._report.check(f"{expected} {count}", answer.body.get(count), expected)

    def _ping_until(self, holds: Callable[[], bool], claim: str) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not holds() and time.monotonic() < deadline:
            time.sleep(_BETWEEN_PINGS_SECONDS)
            answer = self._project.ping()
            said = answer.problem or local_cron.summary(answer.body)
            if said:
                self._report.shows(said)
        self._report.check(claim, holds(), expected=True)


def _read_orders() -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath("orders.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _total(order: dict[str, str]) -> Decimal:
    return int(order["quantity"]) * Decimal(order["unit_price"])


def _get(url: str) -> tuple[int, str]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    try:
        connection.request("GET", place.path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def _post_forged(url: str, body: bytes) -> int:
    place = urlsplit(url)
    headers = {
        "webhook-id": "msg_forged",
        "webhook-timestamp": str(int(time.time())),
        "webhook-signature": "v1,bm90IHRoZSBzaWduYXR1cmUgb2YgYW55Ym9keSBoZXJl",
    }
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    try:
        connection.request("POST", place.path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()
