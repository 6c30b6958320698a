"""What the management API refuses by itself, before or instead of the services below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduled_actions.core.errors import RequestError, StateConflict, UnknownActionType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduled_actions.core.errors import FieldProblem


class NotAuthorised(RequestError):
    """The request shows no secret that opens this endpoint."""

    code = "unauthorized"

    def __init__(self, detail: str, *, shows_nothing: bool = False) -> None:
        #: Neither a secret nor a signature, wrong or right.
        self.shows_nothing = shows_nothing
        super().__init__(detail)


class Forbidden(RequestError):
    """The token is known, but does not reach so far."""

    code = "forbidden"

    def __init__(self, detail: str) -> None:
        super().__init__(detail)


class TooManyAttempts(RequestError):
    """Too many wrong tokens came from one address; what it sends is not looked at for a while."""

    code = "too_many_attempts"

    def __init__(self, retry_after_seconds: int) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(
            f"too many wrong tokens from this address: try again in {retry_after_seconds} "
            f"second{'' if retry_after_seconds == 1 else 's'}"
        )


class UnknownRoute(RequestError):
    """Nothing answers at this path."""

    code = "unknown_route"

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"nothing answers at {path[:200]}; /openapi.json lists what does")


class MethodNotAllowed(RequestError):
    """The path answers, but not to this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: Iterable[str]) -> None:
        self.method = method
        self.allowed = tuple(allowed)
        super().__init__(f"{method[:20]} is not answered here; use {', '.join(self.allowed)}")


class UnsupportedMediaType(RequestError):
    """The body is not said to be JSON."""

    code = "unsupported_media_type"

    def __init__(self, content_type: str) -> None:
        self.content_type = content_type
        said = f"not {content_type[:80]!r}" if content_type else "which this request does not say it is"
        super().__init__(f"send the body as Content-Type: application/json, {said}")


class BodyUnreadable(RequestError):
    """The body is no JSON that can be read and kept."""

    code = "body_unreadable"

    def __init__(self, problem: str, *, field: str = "") -> None:
        self.problem = problem
        #: The path of what cannot be kept; empty where it is no JSON at all.
        self.field = field
        super().__init__(f"the body cannot be read: {problem}")


class FieldsInvalid(RequestError):
    """Fields of the request are not what they must be; every one of them is listed."""

    code = "fields_invalid"

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        listed = "; ".join(str(problem) for problem in self.problems[:_SAID_MOST])
        left = len(self.problems) - _SAID_MOST
        super().__init__(f"{listed}; and {left} more" if left > 0 else listed)


class NoSuchTypePage(UnknownActionType):
    """The address of a page names an action type without a handler in this build."""


class UnknownActionTypes(UnknownActionType):
    """Some of many actions have no handler in this build; all that is wrong with any of them is listed."""

    def __init__(self, first: UnknownActionType, problems: Sequence[FieldProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__(first.action_type, first.known)


class PreconditionFailed(StateConflict):
    """It is no longer what the caller saw."""

    code = "precondition_failed"

    def __init__(self, reference: object, etag: str) -> None:
        self.reference = reference
        self.etag = etag
        super().__init__(f"{reference} has changed since: its ETag is now {etag}; read it again")


class IdempotencyKeyReused(RequestError):
    """The key came before with another request."""

    code = "idempotency_key_reused"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f'Idempotency-Key "{key}" came before with another request: each request needs its own')


class IdempotencyKeyInUse(StateConflict):
    """The first request with the key has not been answered yet."""

    code = "idempotency_key_in_use"

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f'the first request with Idempotency-Key "{key}" is still being answered: try again')


#: The detail says so many; the list has them all.
_SAID_MOST = 5
