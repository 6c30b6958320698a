"""Packaged templates of notifications, templates of the project, and broken templates."""

from __future__ import annotations

import logging
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduled_actions.notifications.channels.templates import render_digest, render_reminder
from scheduled_actions.notifications.rules.reminder import SEVERITIES, Reminder
from tests.factories import NOW


def values(**changes):
    given = {"name": "License <b>", "due_at": NOW + timedelta(days=3), "now": NOW, **changes}
    return Reminder(**given).values(ZoneInfo("Europe/Berlin"), recipient="Ann")


@pytest.fixture
def captured_log(caplog, monkeypatch):
    """Return the captured log; earlier tests of the command line may have disabled the logger."""
    logger = logging.getLogger("scheduled_actions")
    monkeypatch.setattr(logger, "disabled", False)
    monkeypatch.setattr(logger, "propagate", True)
    caplog.set_level(logging.WARNING, logger="scheduled_actions")
    return caplog


@pytest.fixture
def write(tmp_path):
    """Return a function that writes templates of a project and returns the project directory."""

    def write(**texts):
        (tmp_path / "templates").mkdir(exist_ok=True)
        for name, text in texts.items():
            (tmp_path / "templates" / name.replace("__", "-").replace("_", ".")).write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize("kind", ["reminder", "escalation", "missed"])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_each_kind_and_severity_has_text_and_html_templates(kind, severity):
    message = render_reminder(severity, values(kind=kind, next_reminder_at=NOW + timedelta(days=1)))

    assert "License <b>" in message.subject
    assert "Hello Ann," in message.text
    assert "Due: Saturday, 7 March 2026, 13:00 (Europe/Berlin)" in message.text
    assert "Next reminder: Thursday, 5 March 2026, 13:00 (Europe/Berlin)" in message.text
    assert "License &lt;b&gt;" in message.html
    assert "<b>" not in message.html
    assert "Next reminder: Thursday" in message.html


def test_each_severity_has_its_own_text():
    assert len({render_reminder(severity, values()).subject for severity in SEVERITIES}) == len(SEVERITIES)


def test_the_last_reminder_states_that_no_further_reminder_is_planned():
    assert "No further reminder is planned." in render_reminder("low", values()).text


def test_the_target_and_the_assignee_are_shown_if_known():
    message = render_reminder(
        "low", values(target={"type": "license", "id": "7"}, assignee="Bob", message="Ask <Carl>.")
    )

    assert "\n\nAsk <Carl>.\n\n" in message.text
    assert "<p>Ask &lt;Carl&gt;.</p>" in message.html
    assert "About: license 7\nAssigned to: Bob\n" in message.text


def test_a_template_of_the_project_replaces_the_packaged_text_and_html(write):
    project = write(reminder_txt="Subject: Mine {{ name }}\n\nAt {{ local_time }} for {{ data.color }}\n")

    message = render_reminder("low", values(data={"color": "red"}), project=project)

    assert message.subject == "Mine License <b>"
    assert message.text == "At Saturday, 7 March 2026, 13:00 (Europe/Berlin) for red\n"
    assert message.html is None
    assert render_reminder("low", values(kind="missed"), project=project).subject == "Missed: License <b>"


def test_a_template_for_one_severity_precedes_the_general_one(write):
    project = write(
        reminder_txt="Subject: all\n\nx",
        reminder__urgent_txt="Subject: urgent\n\nx",
        reminder__urgent_html="<p>{{ name }}</p>",
    )

    assert [render_reminder(one, values(), project=project).subject for one in SEVERITIES] == [
        "urgent", "all", "all", "all",
    ]  # fmt: skip
    assert render_reminder("urgent", values(), project=project).html == "<p>License &lt;b&gt;</p>"


def test_a_template_of_the_project_can_extend_a_packaged_one(write):
    project = write(reminder_txt='{% extends "ours/reminder-low.txt" %}{% block subject %}Mine{% endblock %}')

    message = render_reminder("urgent", values(), project=project)

    assert message.subject == "Mine"
    assert "is due in 3 days." in message.text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Subject: {{ nmae }}\n", "UndefinedError"),
        ("Subject: {% if %}\n", "TemplateSyntaxError in line 1"),
        ("No subject\n\nHello", 'its first line is not "Subject: …"'),
        ("Subject: {{ name.__class__.__mro__ }}\n", "SecurityError"),
        ("Subject: {{ 1 / 0 }}\n", "ZeroDivisionError"),
    ],
)
def test_a_broken_template_is_logged_and_the_packaged_one_is_used(write, captured_log, text, problem):
    project = write(reminder_txt=text)

    assert render_reminder("low", values(), project=project).subject == "Coming up: License <b> is due in 3 days"
    assert f"notice.template_broken template=reminder.txt problem={problem}" in captured_log.text


def test_a_broken_html_template_is_also_replaced(write, captured_log):
    project = write(reminder_txt="Subject: fine\n\nfine", reminder_html="{{ nothing }}")

    assert render_reminder("low", values(), project=project).subject.startswith("Coming up")
    assert "template=reminder.html problem=UndefinedError" in captured_log.text


def test_a_rendered_subject_is_one_line():
    message = render_reminder("low", values(name="License\r\nBcc: eve@example.org"))

    assert "\n" not in message.subject
    assert "\r" not in message.subject


def test_a_digest_contains_every_notification(write):
    notices = [
        {"subject": "One <b>", "text": "first\nline", "severity": "urgent"},
        {"subject": "Two", "text": "second", "severity": None},
    ]

    message = render_digest(notices, {"recipient": None, "urgent": 1}, project=None)

    assert message.subject == "2 notifications, 1 of them urgent"
    assert "1. One <b>\n   first\n   line\n\n2. Two\n   second" in message.text
    assert "One &lt;b&gt;" in message.html
    project = write(digest_txt="Subject: {{ notices | length }}\n\n{{ notices[1].subject }}")
    assert render_digest(notices, {"recipient": None, "urgent": 1}, project=project).text == "Two\n"
