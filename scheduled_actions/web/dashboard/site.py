"""Answer requests to the dashboard: authenticate the caller, find and call the page, and render its response."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from flask import Response, request

from scheduled_actions.core.errors import TooLarge
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.auth import Caller
from scheduled_actions.web.api.dispatch import InternalApi, mounted, reserved_path_words
from scheduled_actions.web.api.problems import (
    MethodNotAllowed,
    PreconditionFailed,
    Unauthorized,
    UnknownRoute,
    problem_details,
    receiving,
)
from scheduled_actions.web.api.routing import Router
from scheduled_actions.web.dashboard import auth, rendering
from scheduled_actions.web.dashboard.page import DashboardPage, HtmlPart, PageContext, Redirect, RequestContext, View
from scheduled_actions.web.dashboard.site_map import PAGES
from scheduled_actions.web.dashboard.times import zone_of

#: The largest form, in bytes; a URL-encoded payload fits.
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
#: The HTML has an origin of its own, and may only have styles and images that it contains.
_HTML_PART_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
#: The texts for errors whose own message is about the API.
_DETAILS: dict[type[Exception], str] = {
    PreconditionFailed: "The object has changed since this page was opened. Go back, reload that page, and try again.",
    UnknownRoute: "The dashboard has no page at this address.",
}


class Dashboard:
    """The dashboard of one project."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._router: Router[DashboardPage] = Router(PAGES)
        self._auth = auth.AuthController(runtime)

    def answer(self, path: str) -> Response:
        """Answer the current Flask request; an error becomes an error page.

        Args:
            path: The request's path below `/dashboard`.
        """
        base = f"{request.script_root}{mounted(request.url_rule)}"
        if path.startswith("static/"):
            return _asset(path.removeprefix("static/"))
        try:
            with self._runtime.request_threads.one():
                response = self._answer(path.strip("/"), base)
        except Exception as error:  # noqa: BLE001 - shown to the caller, and logged
            response = _error_page(error, base, PageContext(theme=_theme()))
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _answer(self, path: str, base: str) -> Response:
        _check_form()
        if path == "login":
            return self._auth.login(base, PageContext(theme=_theme()))
        try:
            session, caller = self._auth.authenticate()
        except Unauthorized:
            return self._auth.sign_in_first(base)
        frame = PageContext(csrf=session.csrf, theme=_theme(), pages=_navigation(self._runtime, caller, path))
        try:
            return self._call_page(path, base, session, caller, frame)
        except Exception as error:  # noqa: BLE001 - as above
            return _error_page(error, base, frame, self._context(base, caller, {}, {}))

    def _call_page(self, path: str, base: str, session: auth.Session, caller: Caller, frame: PageContext) -> Response:
        if request.method == "POST":
            auth.check_csrf(frame.csrf, request.form.get("csrf", "") or request.headers.get("X-CSRF-Token", ""))
            if path == "logout":
                return self._auth.logout(base, session)
            if path == "theme":
                return _set_theme(base)
        found = self._router.find(path)
        # The API would interpret such an id as a part of another route.
        if found is None or found[1].get("id") in reserved_path_words():
            raise UnknownRoute(request.path)
        page = found[0].get("GET" if request.method == "HEAD" else request.method)
        if page is None:
            raise MethodNotAllowed(request.method, sorted(found[0]))
        caller.must_be(page.role)
        # Signed for this session: no other session can read the values that a change passes to the next page.
        purpose = f"shown {session.csrf}"
        passed = self._passed(path, purpose)
        frame.said = passed.get("said")
        context = self._context(base, caller, found[1], passed.get("shown") or {})
        return self._respond(page.function(context), context, frame, purpose)

    def _respond(
        self, answer: View | HtmlPart | Redirect | str, context: RequestContext, frame: PageContext, purpose: str
    ) -> Response:
        match answer:
            case str():
                response = Response(answer, mimetype="text/plain")
            case HtmlPart():
                response = Response(answer.html, headers={"Content-Security-Policy": _HTML_PART_POLICY})
            case Redirect():
                response = auth.redirect(context.base + answer.path)
                if answer.said is not None or answer.shown is not None:
                    signed = self._auth.sign(purpose, {"at": answer.path, "said": answer.said, "shown": answer.shown})
                    auth.set_cookie(response, auth.PASSED_COOKIE, signed, context.base, seconds=auth.PASSED_SECONDS)
            case _:
                response = Response(rendering.page(answer, context.base, frame, context), answer.status)
                if frame.said or context.shown:
                    auth.set_cookie(response, auth.PASSED_COOKIE, "", context.base, seconds=0)
        return response

    def _passed(self, path: str, purpose: str) -> Mapping[str, Any]:
        """Return `said` and `shown` of the redirect to this page; empty if no recent change redirected to it."""
        if request.method != "GET" or "HX-Request" in request.headers:
            return {}
        match self._auth.unsign(purpose, request.cookies.get(auth.PASSED_COOKIE), auth.PASSED_SECONDS):
            case {"at": str(at), "said": said, "shown": shown} if unquote(at.partition("?")[0]).strip("/") == path:
                return {"said": said, "shown": shown}
            case _:
                return {}

    def _context(
        self, base: str, caller: Caller, parameters: Mapping[str, str], shown: Mapping[str, Any]
    ) -> RequestContext:
        return RequestContext(
            api=InternalApi(runtime=self._runtime, caller=caller, base=base.removesuffix("/dashboard") + "/api/v1"),
            base=base,
            here=auth.below(base),
            path=parameters,
            query=request.args,
            form=request.form,
            zone=zone_of(request.cookies),
            shown=shown,
        )


def _check_form() -> None:
    """Parse the form of a POST request.

    Raises:
        TooLarge: The form exceeds `FORM_LIMIT`.
        BodyUnreadable: The body is incomplete or malformed.
        FormExpired: The form was sent from another site.
    """
    if request.method == "POST":
        if (request.content_length or 0) > FORM_LIMIT:
            raise TooLarge("the form", request.content_length or 0, FORM_LIMIT)
        request.max_content_length = request.max_form_memory_size = FORM_LIMIT
        with receiving(FORM_LIMIT):
            request.form  # noqa: B018 - parsed here, where errors are handled
        # Browsers send this header; a form from another site is refused before its CSRF token is checked.
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
            raise auth.FormExpired


def _navigation(runtime: Runtime, caller: Caller, path: str) -> list[tuple[DashboardPage, bool]]:
    """Return the navigation entries that the caller may open, each with whether it is the current page."""
    return [
        (page, page.path.strip("/").partition("/")[0] == path.partition("/")[0])
        for page in PAGES
        if page.nav is not None
        and caller.role.includes(page.role)
        and (caller.team_id is None or not page.nav.is_of_no_team)
        and page.nav.is_in_use(runtime)
    ]


def _theme() -> str:
    theme = request.cookies.get(THEME_COOKIE, "auto")
    return theme if theme in THEMES else "auto"


def _set_theme(base: str) -> Response:
    response = auth.redirect(auth.inside(base, request.form.get("next", "")))
    theme = request.form.get("theme", "auto")
    auth.set_cookie(response, THEME_COOKIE, theme if theme in THEMES else "auto", base, seconds=_YEAR_SECONDS)
    return response


def _error_page(error: Exception, base: str, frame: PageContext, context: RequestContext | None = None) -> Response:
    problem = problem_details(error, path=request.path)
    problem = problem._replace(detail=_DETAILS.get(type(error), problem.detail))
    template = "refused_outside.html" if context is None else "refused.html"
    view = View(template, {"problem": problem, "title": HTTPStatus(problem.status).phrase})
    headers = {name: value for name, value in problem.headers.items() if name != "WWW-Authenticate"}
    return Response(rendering.page(view, base, frame, context), problem.status, headers=headers)


def _asset(name: str) -> Response:
    found = rendering.assets().get(name)
    if found is None or request.method not in {"GET", "HEAD"}:
        return Response("file not found\n", HTTPStatus.NOT_FOUND, mimetype="text/plain")
    is_current = request.args.get("v") == found.version
    headers = {
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": f"public, max-age={_YEAR_SECONDS}, immutable" if is_current else "no-cache",
    }
    content = found.content
    if request.accept_encodings["gzip"] > 0:
        content, headers["Content-Encoding"] = found.compressed, "gzip"
    return Response(content, content_type=found.media_type, headers=headers)
