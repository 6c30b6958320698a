"""What can go wrong, named for the fact.

Three families, so that one place can map them: `RequestError` (the caller asked for something impossible, 4xx),
`StateConflict` (right request, wrong moment, 409) and `DeploymentError` (nobody's request is at fault, 503).
Every class builds its own message and keeps the facts as attributes; branch on the type, never on the text.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ScheduledActionsError(Exception):
    """Anything this package raises on purpose."""

    #: Short name of the fact, in snake case; the `code` of an HTTP problem document.
    code: ClassVar[str] = "error"


class RequestError(ScheduledActionsError):
    """The caller's request cannot be carried out as it stands; nothing was changed."""

    code = "invalid_request"


class StateConflict(ScheduledActionsError):
    """The request is well formed, but the moment's state refuses it; nothing was changed."""

    code = "conflict"


class DeploymentError(ScheduledActionsError):
    """The installation is not ready: settings, secrets, database or generated files."""

    code = "deployment_error"


class InvalidArgument(RequestError):
    """A value is not what it must be."""

    code = "invalid_argument"

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name}: {_short(value)} is not {expected}")


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


class UnknownActionType(RequestError):
    """No handler of that type is in this build's registry."""

    code = "unknown_action_type"

    def __init__(self, action_type: str, known: Iterable[str]) -> None:
        self.action_type = action_type
        self.known = tuple(sorted(known))
        near = difflib.get_close_matches(action_type, self.known, n=1)
        if near:
            hint = f'did you mean "{near[0]}"?'
        elif self.known:
            hint = f"known are: {', '.join(self.known[:12])}"
        else:
            hint = "the registry is empty: write a handler, then run `python registry_build.py`"
        super().__init__(f'action type "{_short_text(action_type)}" has no handler; {hint}')


class UnknownAction(RequestError):
    """No action has that id (or it belongs to another team, which answers the same)."""

    code = "unknown_action"

    def __init__(self, action_id: object) -> None:
        self.action_id = action_id
        super().__init__(f"no action has the id {_short_text(str(action_id))}")


class UnknownSchedule(RequestError):
    """No schedule has that id or name (or it belongs to another team, which answers the same)."""

    code = "unknown_schedule"

    def __init__(self, reference: object) -> None:
        self.reference = reference
        super().__init__(f"no schedule has the id or name {_short_text(str(reference))}")


class UnknownToken(RequestError):
    """No token has that id (or it is bound to another team, which answers the same)."""

    code = "unknown_token"

    def __init__(self, token_id: object) -> None:
        self.token_id = token_id
        super().__init__(f"no token has the id {_short_text(str(token_id))}")


class TooLarge(RequestError):
    """A value is over its limit."""

    code = "too_large"

    def __init__(self, name: str, size: int, limit: int) -> None:
        self.name = name
        self.size = size
        self.limit = limit
        super().__init__(f"{name} is {size:,} bytes; at most {limit:,} are taken")


class NotYetBuilt(RequestError):
    """The parameter belongs to the contract, but this version does not carry it out."""

    code = "not_yet_built"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name} is not available in this version: leave it out")


class RecurrenceInvalid(RequestError):
    """A recurrence cannot be understood, or names something that cannot be."""

    code = "recurrence_invalid"

    def __init__(self, rule: str, problem: str) -> None:
        self.rule = rule
        self.problem = problem
        super().__init__(f'recurrence "{_short_text(rule)}": {problem}')


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
        super().__init__(f"no webhook endpoint is called {_short_text(str(endpoint))}")


class UnknownDelivery(RequestError):
    """No webhook delivery has that id (or it belongs to another team, which answers the same)."""

    code = "unknown_delivery"

    def __init__(self, delivery_id: object) -> None:
        self.delivery_id = delivery_id
        super().__init__(f"no webhook delivery has the id {_short_text(str(delivery_id))}")


class UnknownTable(RequestError):
    """The search path finds no table of that name."""

    code = "unknown_table"

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"no table is called {_short_text(table)}; write it as SQL does: schema.table, "
            'and "Quoted" where it has capitals'
        )


class WrongStatus(StateConflict):
    """The action's status does not allow the change."""

    code = "wrong_status"

    def __init__(self, action_id: object, status: str, wanted: str) -> None:
        self.action_id = action_id
        self.status = status
        self.wanted = wanted
        super().__init__(f"action {action_id} is {status}; only {wanted} actions can be changed so")


class ScheduleEnded(StateConflict):
    """The schedule has ended: there is nothing to pause, resume or skip."""

    code = "schedule_ended"

    def __init__(self, reference: object, note: str | None) -> None:
        self.reference = reference
        super().__init__(
            f"schedule {reference} has ended{f': {note}' if note else ''}; change its rule to let it go on"
        )


class NothingPlanned(StateConflict):
    """The schedule has no planned occurrence that could be skipped."""

    code = "nothing_planned"

    def __init__(self, reference: object, status: str) -> None:
        self.reference = reference
        self.status = status
        super().__init__(f"schedule {reference} ({status}) has no occurrence that waits; nothing was skipped")


class ActionLocked(StateConflict):
    """The action is due too soon to be changed from outside."""

    code = "action_locked"

    def __init__(self, action_id: object, edit_lock_seconds: int) -> None:
        self.action_id = action_id
        self.edit_lock_seconds = edit_lock_seconds
        super().__init__(
            f"action {action_id} is due within {edit_lock_seconds} seconds and locked; an operator may force the change"
        )


class ClaimLost(StateConflict):
    """The outcome came too late: the lease had ended and the action belongs to somebody else."""

    code = "claim_lost"

    def __init__(self, action_id: object) -> None:
        self.action_id = action_id
        super().__init__(f"action {action_id} is no longer held by this attempt; its outcome was dropped as stale")


class EndpointOfTheFile(StateConflict):
    """The endpoint is declared in the project's file, and is changed there."""

    code = "endpoint_of_the_file"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'endpoint "{name}" is declared in scheduled_actions.toml: change it there')


class TooManyEndpoints(StateConflict):
    """A team has as many webhook endpoints as it may have."""

    code = "too_many_endpoints"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"there are {limit} webhook endpoints already, and no more are taken: delete one first")


class TableBusy(StateConflict):
    """Another session keeps a table locked."""

    code = "table_busy"

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"{_short_text(table)} is locked by another session, and writers wait behind whoever waits for it; "
            "nothing was changed: try again"
        )


class DirectoryNotEmpty(StateConflict):
    """A new project would be mixed with what is there already."""

    code = "directory_not_empty"

    def __init__(self, directory: object, found: str) -> None:
        self.directory = directory
        self.found = found
        super().__init__(
            f"{directory} is not empty (there is {found}); choose another directory, "
            "or add what is missing with --force: files that are there stay as they are"
        )


class ConfigInvalid(DeploymentError):
    """A setting has a value that cannot be used, or a name that means nothing."""

    code = "config_invalid"

    def __init__(self, key: str, value: object, expected: str, source: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        self.source = source
        shown = "" if value is None else f" {_short(value)}:"
        super().__init__(f"{source}: {key}:{shown} {expected}")


class NotConfigured(DeploymentError):
    """A secret or an address that the request needs is unset or too short."""

    code = "not_configured"

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        self.expected = expected
        super().__init__(f"{name} is not configured: {expected}")


class ExtraMissing(DeploymentError):
    """A library that this needs comes with an extra of the package, and is not installed."""

    code = "extra_missing"

    def __init__(self, library: str, extra: str) -> None:
        self.library = library
        self.extra = extra
        super().__init__(f"{library} is not installed: pip install 'scheduled-actions[{extra}]'")


class SecretUnreadable(DeploymentError):
    """A stored secret was encrypted with a key that is not there any more."""

    code = "secret_unreadable"

    def __init__(self, what: str, variable: str) -> None:
        self.what = what
        self.variable = variable
        super().__init__(
            f"{what} was encrypted with another key than {variable} holds; add that key after a comma, or set it anew"
        )


class DatabaseUnavailable(DeploymentError):
    """Postgres cannot be reached, refused the login, or ended the connection.

    The reason is a fact of the driver without addresses, names or passwords: a data source name is never repeated.
    """

    code = "database_unavailable"

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the database cannot be reached: {reason}")


class EmbeddedPostgresFailed(DeploymentError):
    """The project's own Postgres could not be found, started or used."""

    code = "embedded_postgres_failed"

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"embedded Postgres: {problem}; {remedy}")


class LocalServerFailed(DeploymentError):
    """The local server could not be started."""

    code = "local_server_failed"

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"the local server: {problem}; {remedy}")


class ProjectUnusable(DeploymentError):
    """A directory is no project, or nothing can be written there."""

    code = "project_unusable"

    def __init__(self, directory: object, problem: str) -> None:
        self.directory = directory
        self.problem = problem
        super().__init__(f"{directory}: {problem}")


class SchemaOutdated(DeploymentError):
    """The tables are missing or older than this code."""

    code = "schema_outdated"

    def __init__(self, found: int, wanted: int) -> None:
        self.found = found
        self.wanted = wanted
        state = f"at migration {found}" if found else "without this package's tables"
        super().__init__(f"the database is {state}, this code needs {wanted}: run `scheduled-actions migrate`")


class RegistryInvalid(DeploymentError):
    """The handlers cannot be made into a registry, or the generated one cannot be read."""

    code = "registry_invalid"

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class HandlerBroken(DeploymentError):
    """A handler is registered, but its module cannot be imported or holds no such function."""

    code = "handler_broken"

    def __init__(self, action_type: str, reference: str, problem: str) -> None:
        self.action_type = action_type
        self.reference = reference
        self.problem = problem
        super().__init__(f'the handler of "{action_type}" ({reference}) cannot be loaded: {problem}')


def _short(value: object) -> str:
    return _short_text(repr(value))


def _short_text(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
