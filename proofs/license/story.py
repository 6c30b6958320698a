"""The demo: a license renewal due on 15 January, with an approval by three people, on a simulated clock.

The database's clock is set to each instant at which an action is due, and a tick runs there, so weeks pass in seconds.
Mails are sent by SMTP and received.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from handlers import deadline, notification
from scheduled_actions import Person, action, complete_deadline, notify, resolve_recipients, set_deadline
from scheduled_actions.testing.kit import Kit
from scheduled_actions.testing.network import CapturedWebhooks, CapturingNetwork

if TYPE_CHECKING:
    from proofs.license.post import Letter, PostOffice
    from scheduled_actions.runtime import Runtime

BERLIN = ZoneInfo("Europe/Berlin")
NAME = "trade license 42"
BEGINS = datetime(2026, 11, 1, 10, tzinfo=BERLIN)
DUE = datetime(2027, 1, 15, 17, tzinfo=BERLIN)
ENDS = datetime(2027, 1, 20, 12, tzinfo=BERLIN)

PEOPLE = {
    "owner": [Person(id="ann", name="Ann", channels="ann@example.org", timezone="Europe/Berlin")],
    "cfo": [Person(id="carl", name="Carl", channels="carl@example.org", timezone="America/New_York")],
    "approvers": [
        Person(id=name.lower(), name=name, channels=f"{name.lower()}@example.org", timezone="Europe/Berlin")
        for name in ("Dora", "Emil", "Fay")
    ],
}


@resolve_recipients("role")
def people(name: str, _team_id: str | None) -> list[Person]:
    """Return the people with a role; an application would query its own tables."""
    return PEOPLE.get(name, [])


@action("approval:start")
def start_approval(payload: dict[str, Any]) -> None:
    """Ask the three approvers for their approval."""
    notify("role:approvers", f"Please approve the renewal of {payload['what']}.\nEach of you has a day.")


HANDLERS = (
    deadline.send_reminder,
    deadline.send_escalation,
    deadline.mark_missed,
    deadline.create_next,
    notification.send,
    people,
    start_approval,
)


def play(runtime: Runtime, office: PostOffice, *, completed_at: datetime | None) -> list[Letter]:
    """Run the story and return the received mails in order.

    Args:
        runtime: The current runtime of the process, with `HANDLERS` and a database used only by the story.
        office: Receives the project's mails.
        completed_at: When the license is renewed; None: never.
    """
    # The post office receives the mails.
    kit = Kit(runtime, CapturingNetwork(CapturedWebhooks(runtime, {})))
    office.now = kit.clock.now
    kit.clock.set(BEGINS)
    set_deadline(
        {"type": "license", "id": "42"},
        DUE,
        timezone=BERLIN.key,
        name=NAME,
        recipients=["role:owner"],
        reminders=["60 days before at 09:00", {"offset": "7 days before at 09:00", "repeat": "daily"}],
        auto_actions=[
            {"offset": "30 days before at 09:00", "action_type": "approval:start", "payload": {"what": NAME}}
        ],
        escalation=[{"offset": "14 days before at 09:00", "to": ["role:cfo"]}],
    )
    if completed_at is not None:
        kit.run_until(completed_at)
        complete_deadline(NAME, by="ann")
    kit.run_until(ENDS)
    return list(office.letters)
