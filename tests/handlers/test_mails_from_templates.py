"""`email:send` with a template of the project: checked when it is scheduled, rendered by the attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from handlers import email
from scheduled_actions import action, schedule_action
from scheduled_actions.core.errors import PayloadInvalid
from scheduled_actions.testing import kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WELCOME = {"to": "ann@example.org", "template": "welcome", "data": {"name": "<Ann>"}}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    """Return a function that writes templates of the project, by name without `.txt`."""

    def write(text: str, *, name: str = "welcome.txt") -> None:
        (tmp_path / "templates").mkdir(exist_ok=True)
        (tmp_path / "templates" / name).write_text(text, encoding="utf-8")

    return write


@pytest.fixture
def project(tmp_path: Path, database_url: str) -> Iterator[kit.Kit]:
    """Yield the test kit of a project with `email:send`, and `order:place`, which completes with a total."""

    @action("order:place")
    def place(payload: dict) -> dict:
        return {"total": "7 <EUR>"}

    with kit.kit(tmp_path, database_url, handlers=[email.send_email, place], environ={}) as made:
        yield made


def test_a_template_gives_the_subject_the_text_and_the_html_of_a_mail(project, write):
    write("Subject: Welcome, {{ data.name }}\n\nHello {{ data.name }}!\n")
    write("<p>Hello {{ data.name }}!</p>", name="welcome.html")
    schedule_action("email:send", WELCOME)

    (settled,) = project.run_due()

    assert settled.status == "completed"
    [mail] = project.mails
    assert (mail["To"], mail["Subject"]) == ("ann@example.org", "Welcome, <Ann>")
    assert mail.get_body(("plain",)).get_content() == "Hello <Ann>!\n"
    assert mail.get_body(("html",)).get_content().strip() == "<p>Hello &lt;Ann&gt;!</p>"


def test_a_template_without_html_gives_a_mail_of_plain_text(project, write):
    write("Subject: Hi\n\n{{ data }} {{ parent }}")
    schedule_action("email:send", {"to": "ann@example.org", "template": "welcome"})

    project.run_due()

    [mail] = project.mails
    assert (mail.get_content_type(), mail.get_content()) == ("text/plain", "{} None\n")


@pytest.mark.parametrize("text", ["Subject: Ours\n\nHello!", "Hello!"])
def test_a_given_subject_replaces_that_of_the_template(project, write, text):
    write(text)
    schedule_action("email:send", {**WELCOME, "subject": "Mine"})

    project.run_due()

    [mail] = project.mails
    assert (mail["Subject"], mail.get_content()) == ("Mine", "Hello!\n")


def test_the_template_of_a_follow_up_reads_its_parent(project, write):
    write("Subject: {{ parent.action_type }} {{ parent.status }}\n\nIt costs {{ parent.result.total }}.")
    write("<p>{{ parent.result.total }}</p>", name="welcome.html")
    schedule_action("order:place", {}, on_success={"action_type": "email:send", "payload": WELCOME})

    project.run_due()

    [mail] = project.mails
    assert mail["Subject"] == "order:place completed"
    assert mail.get_body(("plain",)).get_content() == "It costs 7 <EUR>.\n"
    assert mail.get_body(("html",)).get_content().strip() == "<p>7 &lt;EUR&gt;</p>"


def test_an_unknown_template_is_refused_when_it_is_scheduled(project, write):
    with pytest.raises(PayloadInvalid) as without:
        schedule_action("email:send", WELCOME)
    for name in ("goodbye.txt", "invoice.txt", "_layout.txt", "picture.html"):
        write("Subject: x\n\nx", name=name)
    with pytest.raises(PayloadInvalid) as unknown:
        schedule_action("email:send", {**WELCOME, "template": "../templates/invoice"})

    assert str(without.value) == (
        'payload of "email:send": template: Input should be the name of a template, but this project has no file '
        "templates/NAME.txt"
    )
    assert str(unknown.value) == (
        'payload of "email:send": template: Input should be the name of a template: goodbye, invoice'
    )
    assert project.actions() == []


def test_an_unknown_template_that_sql_schedules_fails_without_another_attempt(project, connection):
    connection.execute('select schedule_action(\'email:send\', \'{"to": "ann@example.org", "template": "welcome"}\')')

    (settled,) = project.run_due()

    assert (settled.status, settled.attempts, project.mails) == ("failed", 1, [])
    assert "template: Input should be the name of a template" in settled.error_message


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "Subject: Hi\n\nHello\n{{ data.nmae }}",
            "templates/welcome.txt: UndefinedError in line 4: 'dict object' has no attribute 'nmae'",
        ),
        (
            "Subject: {{ parent.result }}",
            "templates/welcome.txt: UndefinedError in line 1: 'None' has no attribute 'result'",
        ),
        ("Subject: {% iff %}", "templates/welcome.txt: TemplateSyntaxError in line 1: Encountered unknown tag 'iff'."),
        ("Subject: {{ 1 / 0 }}", "templates/welcome.txt: ZeroDivisionError in line 1: division by zero"),
        ("Hello!", 'templates/welcome.txt: its first line is not "Subject: …"'),
    ],
)
def test_a_template_that_cannot_be_rendered_fails_the_action_without_another_attempt(project, write, text, error):
    write(text)
    schedule_action("email:send", WELCOME)

    (settled,) = project.run_due()

    assert (settled.status, settled.attempts, settled.error_message, project.mails) == ("failed", 1, error, [])


def test_the_error_of_an_included_template_names_it(project, write):
    write("Subject: Hi\n\n\n\n{% include '_footer.txt' %}")
    write("Acme\n{{ address }}", name="_footer.txt")
    schedule_action("email:send", WELCOME)

    (settled,) = project.run_due()

    assert settled.error_message == (
        "templates/welcome.txt: UndefinedError in line 2 of _footer.txt: 'address' is undefined"
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"text": "Hello!"}, "text: is part of the template: leave it out, or leave the template out"),
        ({"html": "<p>Hello!"}, "html: is part of the template: leave it out, or leave the template out"),
        (
            {"template": None, "text": "Hello!", "subject": "Hi"},
            "data: is for a template: name one, or leave the data out",
        ),
        ({"template": None, "data": None}, "subject: Field required; text: Field required"),
    ],
)
def test_a_mail_has_either_a_template_or_a_text(project, write, changes, problem):
    write("Subject: Hi\n\nHello!")

    with pytest.raises(PayloadInvalid) as refusal:
        schedule_action("email:send", {**WELCOME, **changes})

    assert str(refusal.value) == f'payload of "email:send": {problem}'
