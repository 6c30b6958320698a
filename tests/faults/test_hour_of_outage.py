"""An hour of ticks with one receiver down and another hanging: others are hardly delayed, and no event is lost."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from tests.faults.receiver import Receiver, a_secret
from tests.faults.serving import a_port, wait_until

pytestmark = pytest.mark.slow

#: Number of ticks, one per minute.
HOUR = 60
GOOD = [f"good{number}" for number in range(6)]
#: Working endpoints that receive events in place of the two failing ones, for the comparison.
SPARE = ["spare0", "spare1"]
FAILING = ["down", "hang"]
#: Number of events in each compared round, and in each minute between.
MANY, FEW = 80, 1
#: Maximum delay of other endpoints by hanging ones, as a ratio; the same as in the benchmark of deliveries.
MAX_DELAY_RATIO = 2.0


@pytest.fixture
def receivers():
    return {name: Receiver(a_port(), a_secret()) for name in [*GOOD, *SPARE, *FAILING]}


@pytest.fixture
def endpoint_environ(receivers, project):
    """Declare the endpoints in the project; return the environment with their URLs and secrets."""
    patterns = {"good": ["task:*", "calm:*"], "spare": ["calm:*"], "down": ["task:*"], "hang": ["task:*"]}
    (project / "scheduled_actions.toml").write_text(
        "".join(
            f'[webhooks.endpoints.{name}]\nenv_var = "{name.upper()}_URL"\nsecret_env_var = "{name.upper()}_SECRET"\n'
            f"patterns = {patterns[name.rstrip('0123456789')]}\n"
            for name in receivers
        ),
        encoding="utf-8",
    )
    urls = {f"{name.upper()}_URL": receiver.url for name, receiver in receivers.items()}
    return urls | {f"{name.upper()}_SECRET": receiver.secret for name, receiver in receivers.items()}


def test_an_endpoint_down_for_an_hour_and_a_hanging_one_delay_others_little_and_lose_nothing(
    serve, actions, receivers, endpoint_environ, record_property
):
    hour = Hour(actions, receivers)
    seconds = {"calm": 0.0, "task": 0.0}

    with ExitStack() as up:
        for name in [*GOOD, *SPARE]:
            up.enter_context(receivers[name].listening())
        with receivers["hang"].hanging():
            # Each half has a new process, as after a deployment, without data on hanging endpoints; the order differs.
            for kinds in (["calm", "task"], ["task", "calm"]):
                service = serve(environ=endpoint_environ)
                hour.minute(service, "calm", FEW)
                for kind in kinds:
                    seconds[kind] += hour.minute(service, kind, MANY)
                while hour.minutes % (HOUR // 2):
                    hour.minute(service, "task", FEW)
                if hour.minutes < HOUR:
                    service.kill()
        for name in FAILING:
            assert receivers[name].received == []
            up.enter_context(receivers[name].listening())
        wait_until(
            lambda: hour.minute(service, "task", 0) and actions.are_settled(),
            within=150,
            what="the remaining deliveries are sent",
        )

    ratio = seconds["task"] / seconds["calm"]
    record_property("measured", f"last good delivery, compared with no outage: {ratio:.2f} times")
    assert receivers["hang"].unanswered >= 2, "each process sent to the hanging endpoint"
    assert ratio <= MAX_DELAY_RATIO
    assert [receiver.refused for receiver in receivers.values()] == [[]] * len(receivers)
    for name, receiver in receivers.items():
        wanted = [*hour.emitted["calm"]] if name in SPARE else [*hour.emitted["task"]]
        wanted += hour.emitted["calm"] if name in GOOD else []
        assert sorted(content["entity_id"] for _, content in receiver.received) == sorted(wanted), name
    delivered = [row for row in actions.all() if "endpoint" in row["payload"]]
    ids = [message_id for receiver in receivers.values() for message_id, _ in receiver.received]
    assert sorted(ids) == sorted(str(row["id"]) for row in delivered), "each event once, and each delivery has its row"
    assert set(actions.statuses()) == {"completed"}
    assert {row["result"]["status"] for row in delivered} == {204}
    # The endpoint was down for the whole hour: each of its first deliveries failed at least four times.
    first = [row for row in delivered if row["payload"]["endpoint"] == "down"][:MANY]
    assert min(row["attempts"] for row in first) > 4


class Hour:
    """Ticks of one minute each, and the events emitted in them."""

    def __init__(self, actions, receivers):
        self.minutes = 0
        self.emitted = {"calm": [], "task": []}
        self._actions = actions
        self._receivers = receivers

    def minute(self, service, kind, count):
        """Emit this number of events and ping; return the seconds from the ping to the last good delivery."""
        names = [f"{kind}-{len(self.emitted[kind]) + number}" for number in range(count)]
        self.emitted[kind] += names
        self._actions.schedule(*(_event(kind, name) for name in names))
        asked_at = time.monotonic()
        service.ping()
        good = [self._receivers[name] for name in ([*GOOD, *SPARE] if kind == "calm" else GOOD)]
        for receiver in good:
            missing = {*names} - {content["entity_id"] for _, content in receiver.received}
            assert not missing, f"{len(missing)} events had not reached a good endpoint when the tick ended"
        self.minutes += 1
        self._actions.move_clock(60)
        return max(receiver.received_at[-1] for receiver in good) - asked_at


def _event(kind, entity_id):
    payload = {"event": f"{kind}:created", "entity_type": kind, "entity_id": entity_id, "data": {}}
    return {"action_type": "webhook:send", "payload": payload}
