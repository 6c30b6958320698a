"""Sign callers in and out with tokens; a session is a signed cookie that scripts cannot read.

The cookie contains the digest, role and team of the token, but not the token itself. A session ends after twelve
hours, or when its token is revoked, expires or changes.

The keys of the signatures are derived from `ADMIN_TOKEN`, so a session ends when the value that signed its cookie is no
longer accepted. The database stores the sessions that were signed out, at least until their cookies expire.
"""

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from uuid import UUID, uuid4

from flask import Response, request
from itsdangerous import BadData, URLSafeTimedSerializer

from scheduled_actions.core.errors import RequestError
from scheduled_actions.core.token_generation import digest_of
from scheduled_actions.operations import tokens as store
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.auth import (
    ADMIN,
    Caller,
    FailedLogins,
    caller_of_digest,
    caller_of_token,
    check_open,
    client_address,
)
from scheduled_actions.web.api.problems import TooManyAttempts, Unauthorized
from scheduled_actions.web.dashboard import rendering
from scheduled_actions.web.dashboard.page import PageContext, View, address

#: The lifetime of a session, in seconds; longer than a working day.
SESSION_SECONDS = 12 * 3600
#: The lifetime of a sign-in form, in seconds.
SIGN_IN_SECONDS = 3600
#: The lifetime of the values that a change passes to the next page, in seconds.
PASSED_SECONDS = 60
SESSION_COOKIE = "scheduled_actions_session"
SIGN_IN_COOKIE = "scheduled_actions_sign_in"
PASSED_COOKIE = "scheduled_actions_shown"
_SALT = b"scheduled-actions dashboard"
#: A guess costs 16 MiB and about 50 ms, so that ADMIN_TOKEN cannot be guessed from a cookie.
_SCRYPT_COST = 2**14
#: A path below the dashboard with its query. No nested repetition: matching takes linear time.
_INSIDE = re.compile(r"/[A-Za-z0-9_~:./-]*(?:\?[^\s#\\]*)?")
#: Parts that a browser could interpret as another host or as the parent folder.
_NOT_IN_A_PATH = ("//", "..")
_NEXT_MOST = 2000


class FormExpired(RequestError):
    """The form has no valid CSRF token of this session, or was sent from another site."""

    code = "form_expired"

    def __init__(self) -> None:
        super().__init__("the form has expired or does not belong to this session: reload the page and try again")


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in session."""

    id: UUID
    #: The digest of the token; None for `ADMIN_TOKEN`.
    digest: bytes | None
    #: The token's role and team when the session began.
    rights: str
    #: The CSRF token of the session's forms.
    csrf: str


class AuthController:
    """The sessions of one project: signs callers in and out, and reads and writes their cookies."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._attempts = FailedLogins()

    def authenticate(self) -> tuple[Session, Caller]:
        """Return the session of the request and its caller, with the token's current rights.

        Raises:
            Unauthorized: There is no session, the session is too old or was signed out, or its token was revoked,
                changed or has expired.
            NotConfigured: `ADMIN_TOKEN` is not set or too short.
            DatabaseUnavailable: The session or the token cannot be looked up.
        """
        check_open(self._runtime)
        match self.unsign("session", request.cookies.get(SESSION_COOKIE), SESSION_SECONDS):
            case {"id": str(number), "digest": str(digest), "rights": str(rights), "csrf": str(csrf)}:
                session = Session(UUID(number), base64.b64decode(digest) or None, rights, csrf)
            case _:
                raise Unauthorized("sign in first")
        with self._runtime.database.connection() as connection:
            if store.is_ended(connection, session.id):
                raise Unauthorized("the session has ended: sign in again")
        caller = ADMIN if session.digest is None else caller_of_digest(self._runtime, session.digest)
        if _rights(caller) != session.rights:
            raise Unauthorized("the token has changed: sign in again")
        return session, caller

    def sign_in_first(self, base: str) -> Response:
        """Redirect to the sign-in form; for a partial refresh by htmx, reload the whole page instead.

        After signing in, the caller returns to the page if it was requested with GET, otherwise to the overview.

        Args:
            base: The path of the dashboard on this host.
        """
        if "HX-Request" in request.headers:
            # A partial refresh cannot show the form: reload the whole page.
            return Response(status=HTTPStatus.NO_CONTENT, headers={"HX-Refresh": "true"})
        here = below(base)
        return redirect(address(f"{base}/login", {"next": here if request.method == "GET" and here != "/" else None}))

    def login(self, base: str, frame: PageContext) -> Response:
        """Show the sign-in form; for POST, sign the caller in, or show the form again with the error.

        Args:
            base: The path of the dashboard on this host.
            frame: The frame of the page; its CSRF token is set here.

        Raises:
            NotConfigured: `ADMIN_TOKEN` is not set or too short.
            DatabaseUnavailable: The token cannot be looked up.
        """
        check_open(self._runtime)
        wanted = (request.form if request.method == "POST" else request.args).get("next", "")
        csrf: str = self.unsign("sign_in", request.cookies.get(SIGN_IN_COOKIE), SIGN_IN_SECONDS) or ""
        problem, status = None, HTTPStatus.OK
        if request.method == "POST":
            try:
                check_csrf(csrf, request.form.get("csrf", ""))
                return self._sign_in(base, wanted)
            except (Unauthorized, TooManyAttempts, FormExpired) as error:
                # The API's hint names a command, which a visitor may not be able to run.
                problem = re.sub(r"(?s)^(unknown token):.*", r"\1", str(error))
                status = HTTPStatus.TOO_MANY_REQUESTS if isinstance(error, TooManyAttempts) else HTTPStatus.UNAUTHORIZED
        frame.csrf = csrf or secrets.token_urlsafe(16)
        view = View("login.html", {"problem": problem, "wanted": wanted[:_NEXT_MOST]})
        response = Response(rendering.page(view, base, frame), status)
        set_cookie(response, SIGN_IN_COOKIE, self.sign("sign_in", frame.csrf), base, seconds=SIGN_IN_SECONDS)
        return response

    def _sign_in(self, base: str, wanted: str) -> Response:
        token = request.form.get("token", "").strip()
        if not token:
            raise Unauthorized("enter a token: ADMIN_TOKEN or an API token")
        caller = caller_of_token(
            self._runtime,
            # Decode the bytes as Latin-1, like a token in a header.
            token.encode("utf-8", "surrogatepass").decode("latin-1"),
            address=client_address(request, self._runtime.config.settings),
            attempts=self._attempts,
        )
        digest = "" if caller is ADMIN else base64.b64encode(digest_of(token)).decode()
        session = {"id": uuid4().hex, "digest": digest, "rights": _rights(caller), "csrf": secrets.token_urlsafe(16)}
        response = redirect(inside(base, wanted))
        set_cookie(response, SESSION_COOKIE, self.sign("session", session), base, seconds=SESSION_SECONDS)
        set_cookie(response, SIGN_IN_COOKIE, "", base, seconds=0)
        return response

    def logout(self, base: str, session: Session) -> Response:
        """End the session on the server and delete its cookie."""
        with self._runtime.database.connection() as connection:
            store.end_session(connection, session.id, lifetime_seconds=SESSION_SECONDS)
        response = redirect(f"{base}/login")
        set_cookie(response, SESSION_COOKIE, "", base, seconds=0)
        return response

    def sign(self, purpose: str, value: Any) -> str:  # noqa: ANN401 - small JSON
        """Return a JSON value as text, signed for one purpose."""
        return self._serializer(purpose).dumps(value)

    def unsign(self, purpose: str, text: str | None, seconds: int) -> Any:  # noqa: ANN401 - as signed
        """Return the value of a text signed for this purpose; None if it is missing, forged or older than `seconds`."""
        try:
            return self._serializer(purpose).loads(text, max_age=seconds) if text else None
        except BadData:
            return None

    def _serializer(self, purpose: str) -> URLSafeTimedSerializer:
        return URLSafeTimedSerializer(
            # Every value verifies; the last one signs.
            [_key(value) for value in self._runtime.config.admin_token.accepted],
            salt=purpose.encode(),
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )


@cache
def _key(value: bytes) -> bytes:
    """Return the key derived from a value of `ADMIN_TOKEN`."""
    return hashlib.scrypt(value, salt=_SALT, n=_SCRYPT_COST, r=8, p=1, dklen=32)


def _rights(caller: Caller) -> str:
    return f"{caller.role} {caller.team_id or ''}"


def check_csrf(expected: str, sent: str) -> None:
    """Check the CSRF token of a form.

    Raises:
        FormExpired: The token is missing or wrong.
    """
    if not expected or not hmac.compare_digest(expected.encode(), sent.encode("utf-8", "surrogatepass")):
        raise FormExpired


def below(base: str) -> str:
    """Return the path of the request below the dashboard, with its query; `/` for the overview."""
    return request.full_path.rstrip("?").removeprefix(base.removeprefix(request.script_root)) or "/"


def inside(base: str, wanted: str) -> str:
    """Return the URL of the page at `wanted`, a path below `base`; the URL of the overview for any other text."""
    path = wanted.partition("?")[0]
    is_valid = len(wanted) <= _NEXT_MOST and _INSIDE.fullmatch(wanted) and wanted != "/"
    return base + wanted if is_valid and not any(part in path for part in _NOT_IN_A_PATH) else base or "/"


def redirect(location: str) -> Response:
    """Return a redirect (303) to another page."""
    return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": location})


def set_cookie(response: Response, name: str, value: str, base: str, *, seconds: int) -> None:
    """Set a cookie of the dashboard: HttpOnly, SameSite=Lax, and Secure with https.

    Args:
        response: The response that gets the header.
        name: The name of the cookie.
        value: The value of the cookie.
        base: The path of the dashboard on this host.
        seconds: The lifetime; 0 deletes the cookie.
    """
    # Behind a proxy that ends TLS, only this header says that the browser uses https.
    is_https = request.is_secure or request.headers.get("X-Forwarded-Proto", "").split(",")[0].strip() == "https"
    response.set_cookie(name, value, max_age=seconds, path=base or "/", httponly=True, samesite="Lax", secure=is_https)
