"""A broker in memory, whose failures are chosen by the test."""

from __future__ import annotations

from scheduled_actions.executors.carriers import CarrierUnavailable, SendOutcome


class Broker:
    """The messages that were sent, and what becomes of the next ones; used as the carrier of an executor."""

    def __init__(self):
        self.messages = []
        #: Outcomes of the next messages; those after them are sent.
        self.outcomes = []
        self.is_away = False
        self.is_open = False
        #: Called before each batch is sent.
        self.before_send = lambda: None

    @property
    def tickets(self):
        return [ticket for message in self.messages for ticket in message.tickets]

    def open(self):
        if self.is_away:
            raise CarrierUnavailable("no broker answers at redis://broker")
        self.is_open = True

    def send(self, messages):
        assert self.is_open
        self.before_send()
        outcomes = [self.outcomes.pop(0) if self.outcomes else SendOutcome.SENT for _ in messages]
        self.messages += [
            message for message, one in zip(messages, outcomes, strict=True) if one is not SendOutcome.REFUSED
        ]
        return outcomes

    def close(self):
        self.is_open = False
