"""`mail preview`: a mail as its template renders it."""

from __future__ import annotations

import pytest

from tests.factories import insert

DATA = '{"name": "<Ann>"}'
NOTICES = "digest, escalation, missed, reminder-high, reminder-low, reminder-medium, reminder-urgent"


@pytest.fixture
def templates(project):
    """Return the folder of the project's templates, with a mail in text and HTML."""
    folder = project / "templates"
    folder.mkdir()
    (folder / "welcome.txt").write_text("Subject: Welcome, {{ data.name }}\n\nHello {{ data.name }}!\n")
    (folder / "welcome.html").write_text("<p>Hello {{ data.name }}!</p>\n")
    (folder / "receipt.txt").write_text("It costs {{ parent.result.total }}.\n")
    return folder


@pytest.mark.usefixtures("templates")
def test_the_preview_prints_the_subject_and_the_text_or_the_html(run_anywhere):
    plain = run_anywhere("mail", "preview", "welcome", "--data", DATA)
    html = run_anywhere("mail", "preview", "welcome", "--data", DATA, "--html")
    document = run_anywhere("mail", "preview", "welcome", "--data", DATA, "--json")

    assert plain.stdout == "Subject: Welcome, <Ann>\n\nHello <Ann>!\n"
    assert html.stdout == "<p>Hello &lt;Ann&gt;!</p>\n"
    assert document.json == {
        "subject": "Welcome, <Ann>", "text": "Hello <Ann>!\n", "html": "<p>Hello &lt;Ann&gt;!</p>",
    }  # fmt: skip


@pytest.mark.usefixtures("templates")
def test_the_preview_of_a_follow_up_reads_the_parent_that_is_named(run, connection):
    parent = insert(connection, status="completed", completed_at="2026-01-01", result={"total": 7})

    shown = run("mail", "preview", "receipt", "--subject", "Receipt", "--parent", parent)

    assert shown.stdout == "Subject: Receipt\n\nIt costs 7.\n"


@pytest.mark.usefixtures("templates")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["welcmoe"],
            f"template: 'welcmoe' is not the name of a template: receipt, welcome; notifications: {NOTICES}",
        ),
        (["welcome"], "templates/welcome.txt: UndefinedError in line 1: 'dict object' has no attribute 'name'"),
        (["receipt"], "templates/receipt.txt: UndefinedError in line 1: 'None' has no attribute 'result'"),
        (["welcome", "--data", "[7]"], "--data must be a JSON object"),
        (["broken", "--data", DATA], 'templates/broken.txt: its first line is not "Subject: …"'),
        (["broken", "--subject", "Hi", "--html"], "--html needs templates/broken.html, which does not exist"),
    ],
)
def test_a_mail_that_cannot_be_previewed_is_refused_with_the_reason(run_anywhere, templates, arguments, error):
    if arguments[0] == "broken":
        (templates / "broken.txt").write_text("Hello!")

    refused = run_anywhere("mail", "preview", *arguments)

    assert (refused.exit_code, refused.stderr) == (1, f"error: {error}\n")


def test_without_templates_the_error_says_where_they_belong(run_anywhere):
    refused = run_anywhere("mail", "preview", "welcome")

    assert refused.stderr == (
        "error: template: 'welcome' is not the name of a template, but this project has no file templates/NAME.txt; "
        f"notifications: {NOTICES}\n"
    )


@pytest.mark.parametrize(
    ("template", "subject"),
    [
        ("reminder-urgent", "Urgent: License renewal is due in 3 days"),
        ("escalation", "Escalation (level 1): License renewal is overdue by 3 days"),
        ("missed", "Missed: License renewal"),
        ("digest", "4 notifications, 1 of them urgent"),
    ],
)
def test_the_template_of_a_notification_is_filled_with_a_sample_deadline(run_anywhere, template, subject):
    assert run_anywhere("mail", "preview", template).stdout.startswith(f"Subject: {subject}\n\nHello Ann,\n")


@pytest.mark.parametrize("name", ["reminder-low", "reminder"])
def test_a_template_of_the_project_replaces_the_packaged_one_and_its_errors_are_told(run_anywhere, templates, name):
    template = templates / f"{name}.txt"
    template.write_text("Subject: {{ name }} {{ data.color }}\n\nSoon.\n")

    shown = run_anywhere("mail", "preview", "reminder-low", "--data", '{"color": "red"}')
    refused = run_anywhere("mail", "preview", "reminder-low")

    assert shown.stdout == "Subject: License renewal red\n\nSoon.\n"
    assert refused.stderr == (
        f"error: templates/{name}.txt: UndefinedError in line 1: 'dict object' has no attribute 'color'\n"
    )


def test_every_listed_notification_can_be_previewed(run_anywhere):
    for name in NOTICES.split(", "):
        assert run_anywhere("mail", "preview", name, "--html").exit_code == 0, name
