"""The pages that preview the templates of mails and notifications."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.factories import insert


@pytest.fixture
def templates(runtime, tmp_path):
    """Return the folder of the project's templates, with a mail in text and HTML."""
    runtime.config = replace(runtime.config, project=tmp_path)
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "welcome.txt").write_text("Subject: Welcome, {{ data.name }}\n\nIt costs {{ parent.result.total }}.\n")
    (folder / "welcome.html").write_text("<script>alert(1)</script><p>Hello {{ data.name }}!</p>\n")
    return folder


@pytest.mark.usefixtures("templates")
def test_the_list_leads_to_the_templates_of_mails_and_of_notifications(a_person):
    person = a_person("viewer")

    page = person.opens("/templates").text

    assert 'href="/dashboard/templates"' in person.opens("").text
    for name in ("welcome", "reminder-low", "escalation"):
        assert f'href="/dashboard/templates/{name}"' in page
        assert person.opens(f"/templates/{name}").status_code == 200


@pytest.mark.usefixtures("templates")
def test_a_mail_is_shown_with_the_data_and_the_parent_of_the_form(admin_person, connection):
    parent = insert(connection, status="completed", completed_at="2026-01-01", result={"total": 7})
    query = f"data=%7B%22name%22%3A+%22%3CAnn%3E%22%7D&parent={parent}"

    page = admin_person.opens(f"/templates/welcome?{query}").text
    html = admin_person.opens(f"/templates/welcome/html?{query}")

    assert "Welcome, &lt;Ann&gt;" in page
    assert "It costs 7." in page
    assert "<p>Hello &lt;Ann&gt;!</p>" in html.text
    assert "script-src" not in html.headers["content-security-policy"]
    assert "sandbox" in html.headers["content-security-policy"]


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize(
    ("query", "status", "problem"),
    [
        ("", 200, "UndefinedError in line 1"),
        ("?data=[7]", 400, "data must be a JSON object"),
        ("?data={", 400, "data is not JSON"),
        ("?parent=nothing", 400, "no action has the id nothing"),
        ("?parent=00000000-0000-0000-0000-000000000000", 400, "no action has the id 0000"),
    ],
)
def test_a_template_that_cannot_be_rendered_shows_the_reason(admin_person, query, status, problem):
    page = admin_person.opens(f"/templates/welcome{query}")

    assert page.status_code == status
    assert problem in page.text.partition('role="alert">')[2].partition("</div>")[0]


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize("path", ["/templates/nothing", "/templates/welcome/html", "/templates/..%2Fsecrets"])
def test_what_does_not_exist_or_cannot_be_rendered_is_not_found(admin_person, path):
    assert admin_person.opens(path).status_code == 404


@pytest.mark.usefixtures("templates")
def test_the_pages_are_not_for_callers_of_a_team(a_person):
    person = a_person("viewer", team_id="blue")

    assert "/dashboard/templates" not in person.opens("").text
    assert person.opens("/templates").status_code == 403
    assert person.opens("/templates/reminder-low").status_code == 403


def test_a_project_without_templates_has_no_entry_but_the_notifications(admin_person):
    assert 'href="/dashboard/templates"' not in admin_person.opens("").text
    assert "templates/welcome.txt" in admin_person.opens("/templates").text
