"""What a tick did: the JSON of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from scheduled_actions.actions.rules import settlement
from scheduled_actions.core.action import Status

if TYPE_CHECKING:
    from uuid import UUID

    from scheduled_actions.actions.rules.settlement import Outcome
    from scheduled_actions.core.action import Claimed

#: Errors told in the answer.
_ERRORS_MOST = 20
_ERROR_LENGTH = 200
#: Callers keep no more than 8 KB of an answer.
_ANSWER_BYTES = 8000


@dataclass(slots=True, kw_only=True)
class Report:
    """What a tick did: the JSON of its answer."""

    success: bool = True
    #: Settled by this tick.
    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    #: Skipped or cancelled.
    skipped: int = 0
    rescued: int = 0
    pruned: int = 0
    #: Due actions left, counted to 10,000.
    remaining: int = 0
    #: Whether anything due is left.
    more: bool = False
    #: Another tick in this process was at work, and this one left it to it.
    busy: bool = False
    errors: list[dict[str, str | None]] = field(default_factory=list)
    duration_ms: int = 0
    tick_id: str | None = None
    #: False while the setting `enabled` is.
    enabled: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the answer's fields; `enabled` only when it is false."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["errors"] = list(self.errors)
        if self.enabled:
            del fields["enabled"]
        return fields

    def counts(self) -> dict[str, int]:
        """Return what the tick's row keeps of the answer: what it counted; how long it took is known from the row."""
        numbers = {name: value for name, value in self.as_json().items() if type(value) is int}
        return {name: value for name, value in numbers.items() if name != "duration_ms"}

    def as_text(self) -> str:
        """Return the answer as JSON below 8 KB: callers cut longer ones off; errors that do not fit are left out."""
        fields = self.as_json()
        text = json.dumps(fields, ensure_ascii=False)
        while len(text.encode()) > _ANSWER_BYTES and fields["errors"]:
            fields["errors"].pop()
            text = json.dumps(fields, ensure_ascii=False)
        return text

    def count(self, claimed: Claimed, outcome: Outcome, status: Status) -> None:
        """Count one settlement by the status it ended in, and tell its error."""
        error = getattr(outcome, "reason", None) or ""
        match status:
            case Status.COMPLETED:
                self.succeeded += 1
            case Status.FAILED:
                self.failed += 1
                self.add_error(claimed.id, claimed.action_type, error)
            case Status.PENDING if isinstance(outcome, settlement.Snoozed | settlement.Waited):
                self.snoozed += 1
            case Status.PENDING:
                self.retried += 1
                self.add_error(claimed.id, claimed.action_type, error)
            case Status.SKIPPED | Status.CANCELLED:
                self.skipped += 1
            case Status.NO_ACTION:
                self.add_error(claimed.id, claimed.action_type, error)
            case Status.PROCESSING:
                message = f"action {claimed.id} was settled as processing"
                raise AssertionError(message)
            case _:
                assert_never(status)

    def add_error(self, action_id: UUID | None, action_type: str | None, error: str) -> None:
        """Tell an error, shortened; at most 20 are told."""
        if len(self.errors) < _ERRORS_MOST:
            # Half a surrogate pair, which an exception may hold, has no bytes to be sent as.
            shown = error[: _ERROR_LENGTH + 1].encode(errors="replace").decode()
            shown = shown if len(error) <= _ERROR_LENGTH else f"{shown[: _ERROR_LENGTH - 1]}…"
            told = None if action_id is None else str(action_id)
            self.errors.append({"action_id": told, "action_type": action_type, "error": shown})
