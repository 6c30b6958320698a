"""The dashboard: one way in for every page, from the request's path to its answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from flask import Response, request

from scheduled_actions.actions.management import Management
from scheduled_actions.core.errors import TooLarge
from scheduled_actions.web.api.auth.attempts import FailedAttempts
from scheduled_actions.web.api.dispatch import mounted
from scheduled_actions.web.api.internal import Desk, words_beside_ids
from scheduled_actions.web.api.requests.bodies import receiving
from scheduled_actions.web.api.requests.problems import tell
from scheduled_actions.web.api.requests.refusals import (
    MethodNotAllowed,
    NotAuthorised,
    PreconditionFailed,
    UnknownRoute,
)
from scheduled_actions.web.api.routing import Router
from scheduled_actions.web.dashboard import rendering
from scheduled_actions.web.dashboard.assets import assets
from scheduled_actions.web.dashboard.auth import sessions
from scheduled_actions.web.dashboard.auth import sign_in as door
from scheduled_actions.web.dashboard.page import Frame, Moved, Page, Raw, View, Visit
from scheduled_actions.web.dashboard.site_map import PAGES
from scheduled_actions.web.dashboard.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduled_actions.runtime import Runtime
    from scheduled_actions.web.api.auth.authentication import Caller
    from scheduled_actions.web.dashboard.auth.sessions import Session

#: The largest form taken, in bytes: a payload and room for its signs to be written as addresses write them.
FORM_LIMIT = 1024 * 1024
THEME_COOKIE = "scheduled_actions_theme"
THEMES = ("auto", "light", "dark")
_YEAR_SECONDS = 366 * 86400
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Dashboard:
    """Answers the pages of one project.

    Args:
        runtime: Its parts.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._management = Management(runtime.database, lambda: runtime.scheduler)
        self._router: Router[Page] = Router(PAGES)
        self._sessions = sessions.Sessions(runtime)
        self._door = door.Door(runtime, self._sessions, FailedAttempts())

    def answer(self, path: str) -> Response:
        """Answer the present request.

        Args:
            path: What of its path stands below `/dashboard`.
        """
        base = f"{request.script_root}{mounted(request.url_rule)}"
        if path.startswith("static/"):
            return _asset(path.removeprefix("static/"))
        try:
            with self._runtime.request_threads.one():
                response = self._answer(path.strip("/"), base)
        except Exception as error:  # noqa: BLE001 - told to the caller, and logged, there
            response = _refused(error, base, Frame(theme=_theme()))
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _answer(self, path: str, base: str) -> Response:
        _check_form()
        if path == "login":
            return self._door.login(base, Frame(theme=_theme()))
        try:
            session, caller = self._door.who()
        except NotAuthorised:
            return self._door.shown(base)
        frame = Frame(csrf=session.csrf, theme=_theme(), pages=_navigation(caller, path))
        try:
            return self._opened(path, base, session, caller, frame)
        except Exception as error:  # noqa: BLE001 - as above
            return _refused(error, base, frame, self._visit(base, caller, {}, {}))

    def _opened(self, path: str, base: str, session: Session, caller: Caller, frame: Frame) -> Response:
        if request.method == "POST":
            sessions.check_csrf(frame.csrf, request.form.get("csrf", "") or request.headers.get("X-CSRF-Token", ""))
            if path == "logout":
                return self._door.left(base, session)
            if path == "theme":
                return _themed(base)
        found = self._router.find(path)
        # Asked of the API as it stands, such a word would be another question than the page's.
        if found is None or found[1].get("id") in words_beside_ids():
            raise UnknownRoute(request.path)
        page = found[0].get("GET" if request.method == "HEAD" else request.method)
        if page is None:
            raise MethodNotAllowed(request.method, sorted(found[0]))
        caller.must_be(page.role)
        visit = self._visit(base, caller, found[1], self._shown(path, session))
        answer = page.function(visit)
        response = self._told(answer, visit, frame)
        if visit.shown:
            door.forget(response, sessions.SHOWN_COOKIE, base)
        if isinstance(answer, Moved) and answer.shown is not None:
            sealed = self._sessions.seal(session, {"at": answer.path, "shown": dict(answer.shown)})
            door.keep(response, sessions.SHOWN_COOKIE, sealed, base, seconds=sessions.SAID_SECONDS)
        return response

    def _shown(self, path: str, session: Session) -> Mapping[str, Any]:
        """Return what the change before leaves to be shown at this page, whole, and only once."""
        sealed = request.cookies.get(sessions.SHOWN_COOKIE)
        if sealed is None or request.method != "GET" or "HX-Request" in request.headers:
            return {}
        match self._sessions.unseal(session, sealed):
            case {"at": str(at), "shown": dict(shown)} if unquote(at).strip("/") == path:
                return shown
            case _:
                return {}

    def _visit(self, base: str, caller: Caller, named: Mapping[str, str], shown: Mapping[str, Any]) -> Visit:
        api = base.removesuffix("/dashboard") + "/api/v1"
        return Visit(
            desk=Desk(runtime=self._runtime, management=self._management, caller=caller, base=api),
            base=base,
            here=door.below(base),
            path=named,
            query=request.args,
            form=request.form,
            zone=zone_of(request.cookies),
            shown=shown,
        )

    def _told(self, answer: View | Moved | Raw, visit: Visit, frame: Frame) -> Response:
        match answer:
            case View():
                is_part = "HX-Request" in request.headers
                said = (
                    None
                    if is_part
                    else self._sessions.unsign("said", request.cookies.get(sessions.SAID_COOKIE), sessions.SAID_SECONDS)
                )
                frame.said = said
                response = Response(rendering.page(answer, visit, frame), answer.status)
                if sessions.SAID_COOKIE in request.cookies and not is_part:
                    door.forget(response, sessions.SAID_COOKIE, visit.base)
                return response
            case Moved():
                response = door.moved(visit.base + answer.path)
                if answer.said is not None:
                    signed = self._sessions.sign("said", answer.said)
                    door.keep(response, sessions.SAID_COOKIE, signed, visit.base, seconds=sessions.SAID_SECONDS)
                return response
            case Raw():
                response = Response(answer.text, content_type=f"{answer.media_type}; charset=utf-8")
                if answer.filename is not None:
                    response.headers.set("Content-Disposition", "attachment", filename=answer.filename)
                return response


def _check_form() -> None:
    """Read what was sent.

    Raises:
        TooLarge: It is over the limit; no more than that is read.
    """
    if request.method == "POST":
        if (request.content_length or 0) > FORM_LIMIT:
            raise TooLarge("the form", request.content_length or 0, FORM_LIMIT)
        request.max_content_length = request.max_form_memory_size = FORM_LIMIT
        with receiving(FORM_LIMIT):
            request.form  # noqa: B018 - read here, where what cannot be read is refused
        # Browsers say where a form comes from; another site's is refused before its token is looked at.
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
            raise sessions.FormExpired


def _navigation(caller: Caller, path: str) -> list[tuple[Page, bool]]:
    """Return what the navigation shows to a caller, and whether it is where the caller is."""
    shown = [
        page
        for page in PAGES
        if page.nav is not None
        and caller.role.includes(page.role)
        and (caller.team_id is None or not page.nav.is_of_no_team)
    ]
    here = path.partition("/")[0]
    return [(page, page.path.strip("/").partition("/")[0] == here) for page in shown]


def _theme() -> str:
    theme = request.cookies.get(THEME_COOKIE, "auto")
    return theme if theme in THEMES else "auto"


def _themed(base: str) -> Response:
    """Keep the theme that was chosen, and go back."""
    response = door.moved(door.inside(base, request.form.get("next", "")))
    theme = request.form.get("theme", "auto")
    door.keep(response, THEME_COOKIE, theme if theme in THEMES else "auto", base, seconds=_YEAR_SECONDS)
    return response


def _refused(error: Exception, base: str, frame: Frame, visit: Visit | None = None) -> Response:
    told = tell(error, path=request.path)
    if isinstance(error, PreconditionFailed):
        told = told._replace(detail="It has changed since this page was opened. Go back, reload it, and try again.")
    values = {"told": told, "title": HTTPStatus(told.status).phrase}
    if visit is None:
        text = rendering.outside("refused_outside.html", base, frame, **values)
    else:
        text = rendering.page(View("refused.html", values), visit, frame)
    response = Response(text, told.status)
    response.headers.update({name: value for name, value in told.headers.items() if name != "WWW-Authenticate"})
    return response


def _asset(name: str) -> Response:
    found = assets().get(name)
    if found is None or request.method not in {"GET", "HEAD"}:
        return Response("there is no such file\n", HTTPStatus.NOT_FOUND, mimetype="text/plain")
    takes_gzip = request.accept_encodings["gzip"] > 0
    response = Response(found.compressed if takes_gzip else found.content, content_type=found.media_type)
    if takes_gzip:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    response.headers["X-Content-Type-Options"] = "nosniff"
    is_current = request.args.get("v") == found.version
    response.headers["Cache-Control"] = f"public, max-age={_YEAR_SECONDS}, immutable" if is_current else "no-cache"
    return response
