"""What a caller asked for that cannot be."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from scheduled_actions.core.errors.families import RequestError, short, short_name, short_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class InvalidArgument(RequestError):
    """A value is not what it must be."""

    code = "invalid_argument"

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name}: {short(value)} is not {expected}")

    def renamed(self, name: str) -> InvalidArgument:
        """Return the same under the name that the caller knows the value by."""
        return InvalidArgument(name, self.value, self.expected)


class FieldProblem:
    """One field of a payload that the handler's model refused: where, and what is wrong there."""

    __slots__ = ("message", "where")

    def __init__(self, where: str, message: str) -> None:
        self.where = where
        self.message = message

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class PayloadInvalid(RequestError):
    """The payload does not fit the handler's annotation.

    The message names fields and what was expected there, never their values: it may end in a log.
    """

    code = "payload_invalid"

    def __init__(self, action_type: str, problems: Sequence[FieldProblem]) -> None:
        self.action_type = action_type
        self.problems = tuple(problems)
        listed = "; ".join(str(problem) for problem in self.problems)
        super().__init__(f'payload of "{action_type}": {listed}')


class FollowUpInvalid(RequestError):
    """An action that is to follow the end of another cannot be scheduled as it stands."""

    code = "follow_up_invalid"

    def __init__(self, where: str, problem: RequestError) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class UnknownActionType(RequestError):
    """No handler of that type is in this build's registry."""

    code = "unknown_action_type"

    def __init__(self, action_type: str, known: Iterable[str], *, where: str = "action_type") -> None:
        self.action_type = action_type
        #: The field that names it: `on_success.0.action_type`, for one that follows another.
        self.where = where
        self.known = tuple(sorted(known))
        near = difflib.get_close_matches(action_type, self.known, n=1)
        if near:
            hint = f'did you mean "{near[0]}"?'
        elif self.known:
            hint = f"known are: {', '.join(self.known[:12])}"
        else:
            hint = "the registry is empty: write a handler, then run `python registry_build.py`"
        inside = "" if where == "action_type" else f"{where}: "
        super().__init__(f'{inside}action type "{short_text(action_type)}" has no handler; {hint}')

    def inside(self, where: str) -> UnknownActionType:
        """Return the same error for an action nested in a field of another."""
        return UnknownActionType(self.action_type, self.known, where=f"{where}.{self.where}")


class TypeNotOpen(RequestError):
    """The caller may not schedule actions of that type over HTTP."""

    code = "type_not_open"

    def __init__(self, action_type: str, problem: str, *, where: str = "action_type") -> None:
        self.action_type = action_type
        self.problem = problem
        #: The path of the field that names the type.
        self.where = where
        super().__init__(f'action type "{short_text(action_type)}" {problem}')

    def inside(self, where: str) -> TypeNotOpen:
        """Return the same error for a type that is named inside a field."""
        return TypeNotOpen(self.action_type, self.problem, where=f"{where}.{self.where}")


class UnknownAction(RequestError):
    """No action has that id (or it belongs to another team, which answers the same)."""

    code = "unknown_action"

    def __init__(self, action_id: object) -> None:
        self.action_id = action_id
        super().__init__(f"no action has the id {short_name(action_id)}")


class UnknownSchedule(RequestError):
    """No schedule has that id or name (or it belongs to another team, which answers the same)."""

    code = "unknown_schedule"

    def __init__(self, reference: object) -> None:
        self.reference = reference
        super().__init__(f"no schedule has the id or name {short_name(reference)}")


class UnknownDeadline(RequestError):
    """No deadline has that id or name (or it belongs to another team, which answers the same)."""

    code = "unknown_deadline"

    def __init__(self, reference: object) -> None:
        self.reference = reference
        super().__init__(f"no deadline has the id or name {short_name(reference)}")


class UnknownFact(RequestError):
    """No fact of that name was reported of the thing (or it belongs to another team, which answers the same)."""

    code = "unknown_fact"

    def __init__(self, target_type: str, target_id: str, name: str) -> None:
        self.target_type = target_type
        self.target_id = target_id
        self.name = name
        thing = short_text(f"{target_type} {target_id}")
        super().__init__(f'no fact "{short_text(name)}" is known of {thing}')


class UnknownToken(RequestError):
    """No token has that id (or it is bound to another team, which answers the same)."""

    code = "unknown_token"

    def __init__(self, token_id: object) -> None:
        self.token_id = token_id
        super().__init__(f"no token has the id {short_name(token_id)}")


class UnknownFeed(RequestError):
    """No calendar feed has that id (or it is of another team, which answers the same)."""

    code = "unknown_feed"

    def __init__(self, feed_id: object) -> None:
        self.feed_id = feed_id
        super().__init__(f"no calendar feed has the id {short_name(feed_id)}")


class TooLarge(RequestError):
    """A value is over its limit."""

    code = "too_large"

    def __init__(self, name: str, size: int, limit: int) -> None:
        self.name = name
        self.size = size
        self.limit = limit
        super().__init__(f"{name} is {size:,} bytes; at most {limit:,} are taken")


class RecurrenceInvalid(RequestError):
    """A recurrence cannot be understood, or names something that cannot be."""

    code = "recurrence_invalid"

    def __init__(self, rule: str, problem: str, *, name: str = "recurrence") -> None:
        self.rule = rule
        self.problem = problem
        #: What the caller called it; the path of what it skips, where that is at fault.
        self.name = name
        super().__init__(f'recurrence "{short_text(rule)}": {problem}')


class NeverOccurs(RecurrenceInvalid):
    """A recurrence names no instant in thirty years, or none that could be found in bounded steps."""

    code = "never_occurs"


class UrlInvalid(RequestError):
    """An address cannot be posted to; the message never repeats it: its path or login may be the secret."""

    code = "url_invalid"

    def __init__(self, problem: str, expected: str = "http:// or https:// with a host") -> None:
        self.problem = problem
        self.expected = expected
        super().__init__(f"the URL {problem}; it must be {expected}")


class SignatureInvalid(RequestError):
    """A request is not signed the Standard Webhooks way with a key that is known here."""

    code = "signature_invalid"


class SignatureHeaderMissing(SignatureInvalid):
    """One of the three headers is not there, or empty."""

    def __init__(self, header: str) -> None:
        self.header = header
        super().__init__(f"the request has no {header} header")


class SignatureHeaderInvalid(SignatureInvalid):
    """A header is there, but cannot be what it must be. The message does not repeat what a stranger sent."""

    def __init__(self, header: str, expected: str) -> None:
        self.header = header
        self.expected = expected
        super().__init__(f"{header} is not {expected}")


class SignatureOutOfTime(SignatureInvalid):
    """The request was signed too long ago, or by a clock too far ahead."""

    def __init__(self, age_seconds: float, tolerance_seconds: float) -> None:
        self.age_seconds = age_seconds
        self.tolerance_seconds = tolerance_seconds
        direction = "old" if age_seconds > 0 else "new"
        super().__init__(
            f"webhook-timestamp is {abs(age_seconds):.0f} seconds too {direction} to be true; "
            f"at most {tolerance_seconds:g} either way are taken"
        )


class SignatureMismatch(SignatureInvalid):
    """None of the signatures fits the body, the id, the timestamp and the key."""

    def __init__(self) -> None:
        super().__init__("no signature in webhook-signature fits this body, id and timestamp")


class UnknownEndpoint(RequestError):
    """No webhook endpoint has that id or name (or it belongs to another team, which answers the same)."""

    code = "unknown_endpoint"

    def __init__(self, endpoint: object) -> None:
        self.endpoint = endpoint
        super().__init__(f"no webhook endpoint is called {short_name(endpoint)}")


class UnknownDelivery(RequestError):
    """No webhook delivery has that id (or it belongs to another team, which answers the same)."""

    code = "unknown_delivery"

    def __init__(self, delivery_id: object) -> None:
        self.delivery_id = delivery_id
        super().__init__(f"no webhook delivery has the id {short_name(delivery_id)}")


class UnknownTable(RequestError):
    """The search path finds no table of that name."""

    code = "unknown_table"

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"no table is called {short_text(table)}; write it as SQL does: schema.table, "
            'and "Quoted" where it has capitals'
        )


class BudgetExceeded(RequestError):
    """The evaluation of a rule, template or filter needs more steps or bytes than one evaluation may use."""

    code = "budget_exceeded"

    def __init__(self, what: str, unit: str, limit: int) -> None:
        self.what = what
        self.unit = unit
        self.limit = limit
        super().__init__(f"{what} needs more than {limit:,} {unit} to evaluate: make it simpler or its range shorter")


class RefusedByDatabase(RequestError):
    """The SQL function found an argument that cannot be; its message names it."""

    code = "refused_by_database"

    def __init__(self, message: str) -> None:
        super().__init__(message)
