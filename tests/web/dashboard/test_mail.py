"""The pages of the mails that `dev` has caught."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from scheduled_actions.notifications import caught_mails
from tests.web.conftest import ADMIN_TOKEN
from tests.web.dashboard.conftest import Person

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
HTML = '<script>alert(1)</script><p onclick="alert(2)">Dear <b>Ann</b></p>'


@pytest.fixture
def directory(runtime, tmp_path):
    """Return the directory of the caught mails of the project, which has none yet."""
    runtime.config = replace(runtime.config, project=tmp_path)
    directory = tmp_path / caught_mails.DIRECTORY
    directory.mkdir(parents=True)
    return directory


def catch(directory, subject='Trade "license" <b>', html=None):
    message = EmailMessage()
    message["From"] = "Acme <no-reply@acme.example>"
    message["Subject"] = subject
    message.set_content("Dear Ann,\nit is <due>.\n")
    if html is not None:
        message.add_alternative(html, subtype="html")
    return caught_mails.store(directory, message.as_bytes(), ["ann@example.org", "bob@example.org"], now=NOW)


def test_the_list_shows_each_mail_and_leads_to_it(directory, a_person):
    made = catch(directory)
    person = a_person("viewer")

    page = person.opens("/mail").text

    assert "Trade &#34;license&#34; &lt;b&gt;" in page
    assert "ann@example.org, bob@example.org" in page
    assert "no-reply@acme.example" in page
    assert f'href="/dashboard/mail/{made.id}"' in page
    assert 'href="/dashboard/mail"' in person.opens("").text


def test_a_mail_is_shown_with_its_headers_and_its_text(directory, admin_person):
    made = catch(directory)

    page = admin_person.opens(f"/mail/{made.id}").text

    assert "Dear Ann,\nit is &lt;due&gt;." in page
    assert "<dt>From</dt><dd>Acme &lt;no-reply@acme.example&gt;</dd>" in page
    assert f".scheduled_actions/mail/{made.id}.eml" in page
    assert "Open the HTML part" not in page
    assert admin_person.opens(f"/mail/{made.id}/html").status_code == 404


def test_the_html_of_a_mail_is_shown_as_source_and_apart_in_a_sandbox(directory, admin_person):
    made = catch(directory, html=HTML)

    page = admin_person.opens(f"/mail/{made.id}")
    part = admin_person.opens(f"/mail/{made.id}/html")

    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert f'href="/dashboard/mail/{made.id}/html"' in page.text
    assert part.text == f"{HTML}\n"
    policy = part.headers["Content-Security-Policy"].split("; ")
    assert "sandbox" in policy
    assert "default-src 'none'" in policy
    assert not any(one.startswith("script-src") for one in policy)
    assert part.headers["X-Content-Type-Options"] == "nosniff"
    assert part.headers["Cache-Control"] == "no-store"


def test_an_empty_list_says_how_to_send_a_mail(directory, admin_person):
    page = admin_person.opens("/mail").text

    assert "No mails yet" in page
    assert "scheduled-actions people notify" in page


def test_tokens_of_a_team_see_no_mails(directory, a_person):
    made = catch(directory)
    person = a_person("admin", "red")

    for path in ("/mail", f"/mail/{made.id}", f"/mail/{made.id}/html"):
        answer = person.opens(path)
        assert answer.status_code == 403
        assert "Trade" not in answer.text
    assert 'href="/dashboard/mail"' not in person.opens("").text


@pytest.mark.parametrize(
    "change",
    [
        {"SCHEDULED_ACTIONS_ENV": "production"},
        {"VERCEL": "1"},
        {"SCHEDULED_ACTIONS_EMAIL_HOST": "smtp.example.com"},
        {},
    ],
)
def test_there_are_no_pages_where_mails_are_not_caught(directory, runtime, app, change):
    made = catch(directory)
    email = replace(runtime.config.settings.email, host=change.get("SCHEDULED_ACTIONS_EMAIL_HOST"))
    settings = replace(runtime.config.settings, email=email)
    runtime.config = replace(runtime.config, settings=settings, environ={**runtime.config.environ, **change})
    if not change:
        directory.rename(directory.with_name("moved"))
    person = Person(app.test_client())
    person.signs_in(ADMIN_TOKEN)

    assert person.opens("/mail").status_code == 404
    assert person.opens(f"/mail/{made.id}").status_code == 404
    assert 'href="/dashboard/mail"' not in person.opens("").text


@pytest.mark.parametrize("mail_id", ["20261128T120000000000-00000000", "..%2Fdev", "0"])
def test_an_unknown_mail_is_not_found(directory, admin_person, mail_id):
    assert admin_person.opens(f"/mail/{mail_id}").status_code == 404
