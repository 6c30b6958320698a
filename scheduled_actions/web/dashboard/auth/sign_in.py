"""The door: signing in with a token of the API, and leaving."""

from __future__ import annotations

import re
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING

from flask import Response, request

from scheduled_actions.core.token_generation import digest_of
from scheduled_actions.web.api.auth.authentication import ADMIN, Caller, check_open, holder
from scheduled_actions.web.api.auth.client_address import client_address
from scheduled_actions.web.api.requests.refusals import NotAuthorised, TooManyAttempts
from scheduled_actions.web.dashboard import rendering
from scheduled_actions.web.dashboard.auth import sessions
from scheduled_actions.web.dashboard.page import address

if TYPE_CHECKING:
    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.attempts import FailedAttempts
    from scheduled_actions.web.dashboard.auth.sessions import Session, Sessions
    from scheduled_actions.web.dashboard.page import Frame

#: A path below the dashboard and its query. No repetition holds another one: matching takes linear time.
_INSIDE = re.compile(r"/[A-Za-z0-9_~:./-]*(?:\?[^\s#\\]*)?")
#: What a browser could take for another host, and a way up.
_NOT_IN_A_PATH = ("//", "..")
_NEXT_MOST = 2000


class Door:
    """Lets in whom a token lets in.

    Args:
        runtime: The project's secret, and its tokens.
        cookies: Writes and reads the cookies.
        attempts: The wrong tokens of late.
    """

    def __init__(self, runtime: Runtime, cookies: Sessions, attempts: FailedAttempts) -> None:
        self._runtime = runtime
        self._sessions = cookies
        self._attempts = attempts

    def who(self) -> tuple[Session, Caller]:
        """Return the session of the present request, and whose it is.

        Raises:
            NotAuthorised: Nobody has signed in, or the token opens nothing any more.
            NotConfigured: The API is closed.
        """
        check_open(self._runtime)
        session = self._sessions.read(request.cookies.get(sessions.SESSION_COOKIE))
        if session is None:
            raise NotAuthorised("sign in first")
        return session, self._sessions.caller(session)

    def shown(self, base: str) -> Response:
        """Answer somebody who has to sign in first: where to, and back to here afterwards."""
        here = below(base)
        wanted = here if request.method == "GET" and here not in {"", "/"} else ""
        response = moved(f"{base}/login", {"next": wanted} if wanted else {})
        if "HX-Request" in request.headers:
            # A part of a page cannot be a form to sign in with: the whole page goes there.
            response = Response(status=HTTPStatus.NO_CONTENT, headers={"HX-Refresh": "true"})
        return response

    def login(self, base: str, frame: Frame) -> Response:
        """Answer the form to sign in with, or let in who sent it."""
        check_open(self._runtime)
        wanted = (request.form if request.method == "POST" else request.args).get("next", "")
        visit = self._sessions.unsign("visit", request.cookies.get(sessions.VISIT_COOKIE), sessions.VISIT_SECONDS)
        problem, status = None, HTTPStatus.OK
        if request.method == "POST":
            try:
                sessions.check_csrf(visit if isinstance(visit, str) else "", request.form.get("csrf", ""))
                return self._let_in(base, wanted)
            except (NotAuthorised, TooManyAttempts, sessions.FormExpired) as error:
                problem = str(error)
                is_wait = isinstance(error, TooManyAttempts)
                status = HTTPStatus.TOO_MANY_REQUESTS if is_wait else HTTPStatus.UNAUTHORIZED
        nonce = visit if isinstance(visit, str) else secrets.token_urlsafe(16)
        frame.csrf = nonce
        response = Response(
            rendering.outside("login.html", base, frame, problem=problem, wanted=wanted[:_NEXT_MOST]), status
        )
        signed = self._sessions.sign("visit", nonce)
        keep(response, sessions.VISIT_COOKIE, signed, base, seconds=sessions.VISIT_SECONDS)
        return response

    def _let_in(self, base: str, wanted: str) -> Response:
        token = request.form.get("token", "").strip()
        if not token:
            raise NotAuthorised("enter ADMIN_TOKEN, or a token of `scheduled-actions token create`")
        # As a header would bring it: its bytes, read as Latin-1.
        shown = token.encode("utf-8", "surrogatepass").decode("latin-1")
        address = client_address(request, self._runtime.config.settings)
        caller = holder(self._runtime, shown, address=address, attempts=self._attempts)
        cookie = self._sessions.begin(caller, None if caller is ADMIN else digest_of(token))
        response = moved(inside(base, wanted))
        keep(response, sessions.SESSION_COOKIE, cookie, base, seconds=sessions.SESSION_SECONDS)
        forget(response, sessions.VISIT_COOKIE, base)
        return response

    def left(self, base: str, session: Session) -> Response:
        """End the session on the server and delete its cookie."""
        self._sessions.end(session)
        response = moved(f"{base}/login")
        forget(response, sessions.SESSION_COOKIE, base)
        return response


def below(base: str) -> str:
    """Return the address of the present request below the dashboard."""
    return request.full_path.rstrip("?").removeprefix(base.removeprefix(request.script_root)) or "/"


def inside(base: str, wanted: str) -> str:
    """Return the address of a page below the dashboard; its first page for what is none."""
    is_one = len(wanted) <= _NEXT_MOST and _INSIDE.fullmatch(wanted)
    path = wanted.partition("?")[0]
    if not is_one or path == wanted == "/" or any(part in path for part in _NOT_IN_A_PATH):
        return base or "/"
    return base + wanted


def moved(path: str, query: dict[str, str] | None = None) -> Response:
    """Return an answer that leads to another page."""
    return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address(path, query or {})})


def keep(response: Response, name: str, value: str, base: str, *, seconds: int) -> None:
    """Have the browser keep a cookie that no script reads and no other site sends."""
    response.set_cookie(
        name, value, max_age=seconds, path=base or "/", httponly=True, samesite="Lax", secure=_is_encrypted()
    )


def forget(response: Response, name: str, base: str) -> None:
    """Have the browser forget a cookie."""
    response.delete_cookie(name, path=base or "/", httponly=True, samesite="Lax", secure=_is_encrypted())


def _is_encrypted() -> bool:
    """Whether the browser sees https; a proxy may stand between."""
    return request.is_secure or request.headers.get("X-Forwarded-Proto", "").split(",")[0].strip() == "https"
