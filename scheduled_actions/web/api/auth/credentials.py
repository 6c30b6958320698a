"""Secrets in headers: who may ping, by the cron secret in one or a signature made with it."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from scheduled_actions.core import signing
from scheduled_actions.core.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scheduled_actions.core.secret import Secret


class NotAuthorised(RequestError):
    """The request shows no secret that opens this endpoint."""

    code = "unauthorized"

    def __init__(self, detail: str, *, shows_nothing: bool = False) -> None:
        #: Neither a secret nor a signature, wrong or right.
        self.shows_nothing = shows_nothing
        super().__init__(detail)


def check_cron_secret(
    secret: Secret, headers: Mapping[str, str], read_body: Callable[[], bytes], *, now: float
) -> None:
    """Return if the request shows the secret, or is signed with it.

    Args:
        secret: `CRON_SECRET`; during rotation any of its values will do.
        headers: Of the request, in any case.
        read_body: Reads the body; called for signed requests only.
        now: Seconds since 1970, for the age of a signature.

    Raises:
        NotAuthorised: It does neither.
        RequestError: The body cannot be read.
    """
    headers = {name.lower(): value for name, value in headers.items()}
    presented = [headers.get("x-cron-secret"), bearer(headers.get("authorization"))]
    shown = [one for one in presented if one]
    if any(matches(secret, one) for one in shown):
        return
    if headers.get(signing.SIGNATURE_HEADER):
        body = read_body()
        try:
            signing.verify(body, headers, secret.accepted, now=now)
        except RequestError as error:
            raise NotAuthorised(str(error)) from error
        return
    if shown:
        raise NotAuthorised("the secret is not the one that CRON_SECRET holds")
    how = "send CRON_SECRET as x-cron-secret or as Authorization: Bearer, or sign the request with it"
    raise NotAuthorised(how, shows_nothing=True)


def bearer(value: str | None) -> str | None:
    """Return what an Authorization header bears; None where it bears nothing."""
    scheme, _, credentials = (value or "").strip().partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else None


def matches(secret: Secret, presented: str) -> bool:
    """Whether a header's value is one that the secret accepts."""
    # Header values reach us decoded as Latin-1: these are the bytes that were sent. Every value is compared, each in
    # constant time, so that the time taken tells nothing.
    sent = presented.encode("latin-1", "replace")
    return any([hmac.compare_digest(sent, accepted) for accepted in secret.accepted])  # noqa: C419 - never stop early
