"""Signing in and out, the end of sessions, and cross-site forms."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from itsdangerous import URLSafeTimedSerializer

from scheduled_actions.operations import tokens
from scheduled_actions.web.api.auth import BURST
from scheduled_actions.web.dashboard import auth
from scheduled_actions.web.dashboard.site_map import PAGES
from tests.factories import CRON_SECRET, move_clock
from tests.web.conftest import ADMIN_TOKEN, application
from tests.web.dashboard.conftest import Person

UNKNOWN = "0197a000-0000-7000-8000-00000000ffff"
#: The content of a session cookie of an administrator.
ADMIN_SESSION = {"id": UNKNOWN, "digest": "", "rights": "admin ", "csrf": "x"}


def filled(page):
    return re.sub(r"{\w+}", UNKNOWN, page.path)


def session_cookie(person):
    return person.client.get_cookie(auth.SESSION_COOKIE, path="/dashboard")


# -- signed out --------------------------------------------------------------------------------------------------------


def test_every_page_redirects_to_sign_in_without_a_session(a_visitor):
    for page in PAGES:
        response = a_visitor().client.open(f"/dashboard{filled(page)}", method=page.method)

        assert response.status_code == 303, page
        assert response.location.startswith("/dashboard/login"), page


def test_signing_in_returns_to_the_requested_page(a_visitor):
    person = a_visitor()
    address = "/dashboard/actions?status=failed&action_type=email%3Asend"

    led = person.client.get(address)
    shown = person.client.get(led.location)
    wanted = re.search(r'name="next" value="([^"]+)"', shown.text)[1].replace("&amp;", "&")

    assert person.signs_in(ADMIN_TOKEN, next=wanted).location == address


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/",
        "//evil.example",
        "/a//evil.example",
        "/\\evil.example",
        "/../admin",
        "javascript:alert(1)",
        "/a\nb",
        "",
        "/" + "a" * 1_900 + "!",
    ],
)
def test_signing_in_never_redirects_outside_the_dashboard(a_visitor, wanted):
    assert a_visitor().signs_in(ADMIN_TOKEN, next=wanted).location == "/dashboard"


@pytest.mark.parametrize("token", ["", "wrong", f"{ADMIN_TOKEN}x", CRON_SECRET, f"sat_{'x' * 43}", "ü" * 20, "\ud800"])
def test_a_wrong_token_is_refused_and_not_shown(a_visitor, token):
    person = a_visitor()

    refused = person.signs_in(token.encode("utf-8", "surrogatepass"))

    assert refused.status_code == 401
    assert 'role="alert"' in refused.text
    assert (">Unknown token</p>" in refused.text) is bool(token)
    assert not token.strip("x") or token not in refused.text.partition("<main")[2].partition("<details")[0] or not token
    assert person.opens().status_code == 303


def test_failed_sign_ins_are_limited_as_in_the_api(a_visitor):
    person = a_visitor()
    for _ in range(BURST):
        person.signs_in("wrong")

    refused = person.signs_in("wrong")

    assert refused.status_code == 429
    assert "Too many wrong tokens" in refused.text
    assert person.signs_in(ADMIN_TOKEN).status_code == 303


def test_a_token_with_non_ascii_letters_signs_in(a_runtime):
    token = "ein-Schlüssel-für-Prüfungen"
    person = Person(application(a_runtime(ADMIN_TOKEN=token)).test_client())

    assert person.signs_in(token).status_code == 303


def test_without_an_admin_token_the_dashboard_is_closed_and_shows_the_remedy(a_runtime):
    person = Person(application(a_runtime(ADMIN_TOKEN="short")).test_client())

    for path in ("", "/login", "/actions"):
        response = person.opens(path)
        assert response.status_code == 503
        assert "set it to at least 16 random characters" in response.text


# -- the cookie --------------------------------------------------------------------------------------------------------


def test_the_session_cookie_is_http_only_same_site_and_holds_no_token(a_visitor, connection):
    _, secret = tokens.create(connection, name="mine", role="viewer")

    response = a_visitor().signs_in(secret)

    (cookie,) = [one for one in response.headers.getlist("Set-Cookie") if one.startswith(auth.SESSION_COOKIE)]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Path=/dashboard" in cookie
    assert "Secure" not in cookie
    content = base64.urlsafe_b64decode(cookie.partition("=")[2].partition(".")[0] + "==")
    assert secret not in cookie
    assert secret.encode() not in content
    assert secret.removeprefix("sat_")[:8].encode() not in content


@pytest.mark.parametrize(
    "options", [{"base_url": "https://app.example"}, {"headers": {"X-Forwarded-Proto": "https, http"}}]
)
def test_over_https_the_cookie_is_secure(app, options):
    client = app.test_client()
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/dashboard/login", **options).text)[1]
    visit = client.get("/dashboard/login", **options).headers["Set-Cookie"]

    headers = options.get("headers", {}) | {"Cookie": visit.partition(";")[0]}
    csrf = re.search(
        r'name="csrf" value="([^"]+)"', client.get("/dashboard/login", **{**options, "headers": headers}).text
    )[1]
    response = client.post(
        "/dashboard/login", data={"csrf": csrf, "token": ADMIN_TOKEN}, **{**options, "headers": headers}
    )

    assert response.status_code == 303
    assert all("Secure" in one for one in response.headers.getlist("Set-Cookie"))


def test_a_forged_session_cookie_is_refused(admin_person):
    cookie = session_cookie(admin_person).value
    # Not the last letter: two of its six bits are padding, so a changed letter may mean the same bytes.
    changed = cookie[:-10] + ("A" if cookie[-10] != "A" else "B") + cookie[-9:]
    forged = URLSafeTimedSerializer(["guessed"], salt=b"session").dumps(
        {"id": UNKNOWN, "digest": "", "rights": "admin ", "csrf": "x"}
    )
    other = auth.PASSED_COOKIE

    for value in (changed, forged, "", "x.y.z", f"{other}.{cookie}"):
        admin_person.client.set_cookie(auth.SESSION_COOKIE, value, path="/dashboard")
        assert admin_person.opens().status_code == 303, value


def test_a_cookie_signed_for_another_purpose_is_not_a_session(runtime, a_visitor):
    person = a_visitor()
    signed = auth.AuthController(runtime).sign("said", ADMIN_SESSION)
    person.client.set_cookie(auth.SESSION_COOKIE, signed, path="/dashboard")

    assert person.opens().status_code == 303


def test_a_session_ends_after_twelve_hours(admin_person, monkeypatch):
    import itsdangerous.timed

    now = itsdangerous.timed.time.time()
    assert admin_person.opens().status_code == 200

    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + auth.SESSION_SECONDS + 60)

    assert admin_person.opens().status_code == 303


def test_a_session_ends_when_its_token_is_revoked(a_visitor, connection):
    token, secret = tokens.create(connection, name="leaving", role="operator")
    person = a_visitor()
    person.signs_in(secret)
    assert person.opens().status_code == 200

    tokens.revoke(connection, token.id)

    assert person.opens().status_code == 303


def test_a_session_ends_when_its_token_expires(a_visitor, connection):
    _, secret = tokens.create(connection, name="short", role="viewer", expires_in=timedelta(minutes=5))
    person = a_visitor()
    person.signs_in(secret)
    assert person.opens().status_code == 200

    move_clock(connection, timedelta(minutes=6))

    assert person.opens().status_code == 303


def test_a_session_survives_the_rotation_of_the_admin_token_but_not_its_replacement(a_runtime, admin_person):
    def opened_under(token):
        other = Person(application(a_runtime(ADMIN_TOKEN=token)).test_client())
        other.client.set_cookie(auth.SESSION_COOKIE, session_cookie(admin_person).value, path="/dashboard")
        return other.opens().status_code

    assert opened_under(f"{ADMIN_TOKEN},another-admin-token") == 200
    assert opened_under("another-admin-token") == 303


def test_signing_out_ends_the_session(admin_person):
    assert admin_person.sends("/logout").location == "/dashboard/login"
    assert admin_person.opens().status_code == 303


def test_a_copied_cookie_is_refused_after_sign_out(admin_person, a_person, app):
    for person in (admin_person, a_person("viewer")):
        kept = session_cookie(person).value
        person.sends("/logout")

        thief = Person(app.test_client())
        thief.client.set_cookie(auth.SESSION_COOKIE, kept, path="/dashboard")

        assert thief.opens().status_code == 303


def test_signing_out_keeps_other_sessions_of_the_token(a_visitor, connection):
    _, secret = tokens.create(connection, name="two browsers", role="viewer")
    one, other = a_visitor(), a_visitor()
    one.signs_in(secret)
    other.signs_in(secret)

    one.sends("/logout")

    assert (one.opens().status_code, other.opens().status_code) == (303, 200)


@pytest.mark.parametrize("change", ["role = 'operator'", "team_id = 'red'", "digest = sha256('other')"])
def test_a_session_ends_when_its_token_is_changed(a_visitor, connection, change):
    token, secret = tokens.create(connection, name="changing", role="viewer", team_id="blue")
    person = a_visitor()
    person.signs_in(secret)
    assert person.opens().status_code == 200

    connection.execute(f"update scheduled_action_tokens set {change} where id = %s", [token.id])

    assert person.opens().status_code == 303


def test_ended_sessions_are_deleted_when_their_cookies_have_expired(a_visitor, connection):
    for _ in range(2):
        person = a_visitor()
        person.signs_in(ADMIN_TOKEN)
        person.sends("/logout")
        move_clock(connection, timedelta(seconds=auth.SESSION_SECONDS + 60))

    assert connection.execute("select count(*) from scheduled_action_ended_sessions").fetchone() == (1,)


def test_a_live_part_reloads_the_page_when_the_session_has_ended(a_visitor):
    response = a_visitor().opens(headers={"HX-Request": "true"})

    assert (response.status_code, response.headers["HX-Refresh"]) == (204, "true")


# -- forms from other sites --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("csrf", ["", "wrong", "\udcff"])
def test_a_form_without_the_csrf_token_of_its_session_is_refused(admin_person, csrf):
    posts = [filled(page) for page in PAGES if page.method == "POST"]

    for path in ["/logout", "/theme", *posts]:
        response = admin_person.sends(path, csrf.encode("utf-8", "surrogateescape"))
        assert response.status_code == 400, path
        assert "the form has expired" in response.text


def test_the_csrf_token_of_another_session_is_refused(admin_person, a_person):
    other = a_person("admin")

    assert admin_person.sends("/logout", other.csrf()).status_code == 400


def test_a_cross_site_form_is_refused_even_with_a_valid_csrf_token(admin_person):
    response = admin_person.client.post(
        "/dashboard/logout", data={"csrf": admin_person.csrf()}, headers={"Sec-Fetch-Site": "cross-site"}
    )

    assert response.status_code == 400
    assert admin_person.opens().status_code == 200


def test_a_cross_site_sign_in_is_refused(a_visitor):
    person = a_visitor()

    assert person.sends("/login", "", token=ADMIN_TOKEN).status_code == 401
    assert person.opens().status_code == 303


def test_a_form_over_the_limit_is_refused_before_it_is_read(admin_person):
    response = admin_person.sends("/theme", "x", theme="x" * 2**21)

    assert response.status_code == 413


# -- headers, assets and themes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/login", "/nowhere", "/actions?status=nonsense", "/theme"])
def test_every_page_sends_strict_security_headers(admin_person, path):
    response = admin_person.opens(path)

    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert "<script>" not in response.text
    assert not re.search(r"<[^>]+\s(style|on\w+)=", response.text)


def test_pages_load_nothing_from_other_hosts(admin_person):
    for person in (admin_person,):
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', person.opens().text):
            assert address.startswith(("/dashboard", "/docs", "#")), address


def test_versioned_assets_are_cached_forever(admin_person):
    style = re.search(r'href="(/dashboard/static/dashboard.css\?v=\w+)"', admin_person.opens().text)[1]

    named = admin_person.client.get(style, headers={"Accept-Encoding": "gzip"})
    unnamed = admin_person.client.get("/dashboard/static/dashboard.css")

    assert "immutable" in named.headers["Cache-Control"]
    assert named.headers["Content-Encoding"] == "gzip"
    assert unnamed.headers["Cache-Control"] == "no-cache"
    assert b":root" in unnamed.data


@pytest.mark.parametrize("name", ["../site.py", "..%2Fsite.py", "nothing.css", "", "htmx-LICENSE.txt/", "site.py"])
def test_files_outside_the_static_folder_are_not_found(admin_person, name):
    assert admin_person.client.get(f"/dashboard/static/{name}").status_code == 404


def test_the_dashboard_works_below_a_url_prefix(runtime):
    person = Person(application(runtime, url_prefix="/scheduled").test_client(), base="/scheduled/dashboard")

    assert person.signs_in(ADMIN_TOKEN).location == "/scheduled/dashboard"
    page = person.opens()
    assert page.status_code == 200
    assert 'href="/dashboard' not in page.text
    assert 'href="/scheduled/docs"' in page.text


@pytest.mark.parametrize("path", ["/jobs", "/jobs/"])
@pytest.mark.parametrize("root", ["", "/proxied"])
def test_the_root_of_a_url_prefix_redirects_to_the_dashboard_below_it(runtime, path, root):
    client = application(runtime, url_prefix="/jobs").test_client()

    response = client.get(path, environ_overrides={"SCRIPT_NAME": root})

    assert response.location == f"{root}/jobs/dashboard/"
    assert client.get(f"{response.location.removeprefix(root)}login").status_code == 200
    assert client.get("/").status_code == 404


def test_the_theme_is_stored_in_a_cookie(admin_person):
    response = admin_person.sends("/theme", theme="dark", next="/?window=day")

    assert response.location == "/dashboard/?window=day"
    assert 'data-theme="dark"' in admin_person.opens().text
    admin_person.sends("/theme", theme='"><script>')
    assert 'data-theme="auto"' in admin_person.opens().text


def test_a_cold_tick_does_not_import_the_dashboard(tmp_path):
    (tmp_path / "handlers").mkdir()
    code = (
        "import sys, scheduled_actions.wsgi;"
        "print(*sorted(name for name in sys.modules if name.startswith('scheduled_actions.web.dashboard')))"
    )
    root = Path(__file__).parents[3]

    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.strip() == ""


def test_an_unknown_page_is_not_found(admin_person):
    response = admin_person.opens("/nowhere")

    assert response.status_code == 404
    assert "The dashboard has no page at this address." in response.text
