"""Request errors: an argument is invalid, or no object has the requested id or name."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from scheduled_actions.core.errors.families import RequestError, error_class, short, short_text
from scheduled_actions.core.messages import did_you_mean, listed


@error_class
class InvalidArgument(RequestError):
    """An argument has an invalid value.

    Args:
        name: Name of the argument.
        value: The rejected value.
        expected: A noun phrase for valid values; the message is "NAME: VALUE is not EXPECTED".
        problem: What is wrong, such as "is nested deeper than 5 levels"; the message is then "NAME PROBLEM".
    """

    name: str
    value: object = None
    expected: str = ""
    problem: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        # Rendered now: the value may change before the message is read.
        self._text = f"{short(self.value)} is not {self.expected}"

    def __str__(self) -> str:
        return f"{self.name}: {self._text}" if self.problem is None else f"{self.name} {self.problem}"

    def renamed(self, name: str) -> "InvalidArgument":
        """Return the same error under another name of the argument."""
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A problem of one field: the path of the field, empty for the whole payload, and a message."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


@error_class
class PayloadInvalid(RequestError):
    """The payload does not match the handler's model.

    The message contains the names of fields and what they accept, never their values, because it may be logged.
    """

    action_type: str
    problems: Sequence[FieldProblem]

    def __str__(self) -> str:
        return f'payload of "{self.action_type}": {"; ".join(map(str, self.problems))}'


@error_class
class FollowUpInvalid(RequestError):
    """The definition of a follow-up (`on_success`, `on_failure`) is invalid."""

    message = "{where}: {problem}"
    where: str
    problem: RequestError


@dataclass(eq=False, repr=False)
class _ActionTypeError(RequestError):
    """An action type cannot be scheduled."""

    action_type: str
    #: The path of the field that contains the type, such as `on_success.0.action_type`.
    where: str = field(default="action_type", kw_only=True)

    def inside(self, where: str) -> Self:
        """Return the same error with `where` in front of the path of the field."""
        return replace(self, where=f"{where}.{self.where}")


@error_class
class UnknownActionType(_ActionTypeError):
    """No handler of that action type exists in this build."""

    known: Iterable[str]
    #: Why the registry cannot be built from the current handlers; None if it can, or if that was not checked.
    build_problem: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.known = tuple(sorted(self.known))

    def __str__(self) -> str:
        listed = f"known types include {', '.join(list(self.known)[:12])}" if self.known else "the registry is empty"
        hint = did_you_mean(self.action_type, self.known, otherwise=f"{listed}.")
        hint += " After adding a handler, run `scheduled-actions registry build`"
        if self.build_problem is not None:
            hint = (
                f"the registry cannot be built: {self.build_problem}. Correct that file, then run `scheduled-actions "
                "registry build`"
            )
        prefix = "" if self.where == "action_type" else f"{self.where}: "
        return f'{prefix}action type "{short_text(self.action_type)}" has no handler; {hint}'


@error_class
class ActionTypeForbidden(_ActionTypeError):
    """Over HTTP, the caller may not schedule actions of that type, or not with that payload."""

    message = 'action type "{action_type:text}" {problem}'
    problem: str


@dataclass(eq=False, repr=False)
class _NotFound(RequestError):
    """No object has that id or name, or the caller may not see it."""

    reference: object


@error_class
class UnknownAction(_NotFound):
    """No action has that id; an action of another team gives the same error."""

    message = "no action has the id {reference:name}"


@error_class
class UnknownSchedule(_NotFound):
    """No schedule has that id or name; a schedule of another team gives the same error."""

    message = "no schedule has the id or name {reference:name}"


@error_class
class UnknownDeadline(_NotFound):
    """No deadline has that id or name; a deadline of another team gives the same error."""

    message = "no deadline has the id or name {reference:name}"


@error_class
class UnknownFact(RequestError):
    """No fact of that name is stored for the target; a fact of another team gives the same error."""

    message = 'no fact "{name:text}" about {target_type:text} {target_id:text} is stored'
    target_type: str
    target_id: str
    name: str


@error_class
class UnknownPause(RequestError):
    """No such pause is active; a pause of another team gives the same error."""

    #: What was to be resumed, such as `of the action type "email:send"` or `has the id …`.
    reference: str
    #: What is paused now; None: not listed.
    active: Sequence[str] | None = None

    def __str__(self) -> str:
        if self.active is None:
            return f"no active pause {self.reference}"
        listed = ", ".join(self.active[:12])
        return f"no active pause {self.reference}; " + (
            f"paused are {listed}" if listed else "there are no active pauses"
        )


@error_class
class UnknownExecutor(RequestError):
    """The settings have no executor of that name."""

    name: str
    #: The names of the executors in the settings.
    known: Iterable[str]

    def __post_init__(self) -> None:
        self.known = tuple(sorted(self.known))

    def __str__(self) -> str:
        known = tuple(self.known)
        if not known:
            section = self.name if re.fullmatch(r"[A-Za-z0-9_\-]{1,100}", self.name) else "NAME"
            hint = f'add the section [executors.{section}] with types = ["…"] to scheduled_actions.toml'
            return f'executor "{short_text(self.name)}" is unknown, because the settings have no executors: {hint}'
        hint = did_you_mean(self.name, known, otherwise=f"the settings have {listed(known, most=12)}")
        return f'executor "{short_text(self.name)}" is unknown; {hint}'


@error_class
class WrongCarrier(RequestError):
    """The workers of the executor get their actions in another way."""

    name: str
    #: The carrier in the settings.
    carrier: str
    #: How its actions are run instead.
    otherwise: str

    def __str__(self) -> str:
        return f'executor "{self.name}" has carrier = "{self.carrier}": {self.otherwise}'


@error_class
class UnknownToken(_NotFound):
    """No token has that id; a token of another team gives the same error."""

    message = "no token has the id {reference:name}"


@error_class
class UnknownFeed(_NotFound):
    """No calendar feed has that id; a feed of another team gives the same error."""

    message = "no calendar feed has the id {reference:name}"


@error_class
class TooLarge(RequestError):
    """A value exceeds its size limit."""

    message = "{name} is {size:,} bytes; the limit is {limit:,}"
    name: str
    size: int
    limit: int


@error_class
class RecurrenceInvalid(RequestError):
    """A recurrence is malformed, cannot be evaluated, or refers to a function or calendar that does not exist."""

    message = '{name} "{rule:text}": {problem}'
    #: The rule, or the invalid name in `skip`.
    rule: str
    problem: str
    #: The argument that holds the rule, or the path in `skip` that is invalid.
    name: str = field(default="recurrence", kw_only=True)


@error_class
class NeverOccurs(RecurrenceInvalid):
    """A recurrence has no occurrence within thirty years, or none that a bounded search finds."""


@error_class
class UrlInvalid(RequestError):
    """A URL cannot be used. The message does not contain it: its path or login may be a secret."""

    message = "the URL {problem}; it must be {expected}"
    problem: str
    expected: str = "an http:// or https:// address with a host"


@error_class
class SignatureInvalid(RequestError):
    """A request has no valid Standard Webhooks signature."""


@dataclass(eq=False, repr=False)
class SignatureHeaderMissing(SignatureInvalid):
    """A signature header is missing or empty."""

    message = "the request has no {header} header"
    header: str


@dataclass(eq=False, repr=False)
class SignatureHeaderInvalid(SignatureInvalid):
    """A signature header is malformed. The message does not contain its value."""

    message = "{header} must be {expected}"
    header: str
    expected: str


@dataclass(eq=False, repr=False)
class SignatureExpired(SignatureInvalid):
    """The timestamp of a signed request is too far in the past or in the future."""

    age_seconds: float
    tolerance_seconds: float

    def __str__(self) -> str:
        direction = "past" if self.age_seconds > 0 else "future"
        return (
            f"webhook-timestamp is {abs(self.age_seconds):.0f} seconds in the {direction}; "
            f"the tolerance is {self.tolerance_seconds:g} seconds"
        )


class SignatureMismatch(SignatureInvalid):
    """None of the keys produces one of the presented signatures for this body, id and timestamp."""

    message = (
        "no signature in webhook-signature matches this body, id and timestamp: "
        "the receiver has another secret, or verifies a changed body"
    )


@error_class
class UnknownEndpoint(_NotFound):
    """No webhook endpoint has that id or name; an endpoint of another team gives the same error."""

    message = "no webhook endpoint has the id or name {reference:name}"


@error_class
class UnknownDelivery(_NotFound):
    """No webhook delivery has that id; a delivery of another team gives the same error."""

    message = "no webhook delivery has the id {reference:name}"


@error_class
class UnknownTable(RequestError):
    """The search path finds no table of that name."""

    message = 'no table is called {table:text}; write the name as in SQL: schema.table, or "Table" if it has capitals'
    table: str


@error_class
class BudgetExceeded(RequestError):
    """The evaluation of a rule, template or filter exceeds its budget of steps or bytes."""

    message = "{what} needs more than {limit:,} {unit} to evaluate: simplify it"
    what: str
    unit: str
    limit: int


@error_class
class RefusedByDatabase(RequestError):
    """An SQL function or a constraint rejected an argument; the message is that of the database."""

    message = "{text}"
    text: str
