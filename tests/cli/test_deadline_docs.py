"""What the pages on deadlines and conditions show for everyday stories runs as it stands: three ways, one outcome."""

from __future__ import annotations

import re
import shlex
import shutil
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from flask import Flask

from scheduled_actions import ScheduledActions, runtime
from scheduled_actions.core import config
from scheduled_actions.operations import registry_build
from scheduled_actions.runtime import Runtime
from tests.cli.conftest import ADMIN_TOKEN, CRON_SECRET
from tests.factories import set_clock

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"
#: Before the dates that the pages name.
TODAY = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


class Block(NamedTuple):
    """What a page shows as code."""

    section: str
    language: str
    text: str


def shown_on(page):
    """Return the blocks of a page, each with the heading above it."""
    parts = re.split(r"^## (.*)$", (PAGES / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    return [
        Block(section, language, text)
        for section, body in sections
        for language, text in re.findall(r"```(python|sh)\n(.*?)```", body, re.DOTALL)
    ]


def is_a_handler(block):
    return block.text.startswith("# handlers/")


@pytest.fixture
def follow(project, run, database_url, connection):
    """Return a function that does what a block says."""
    for name in ("deadline.py", "email.py"):
        shutil.copy(ROOT / "handlers" / name, project / "handlers" / name)
    for block in filter(is_a_handler, shown_on("deadlines.md") + shown_on("wait-for-conditions.md")):
        path = project / re.match(r"# (\S+)", block.text)[1]
        path.write_text(block.text, encoding="utf-8")
    registry_build.write(project)
    set_clock(connection, TODAY)
    environ = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    made = Runtime(config.load(project, environ))
    app = Flask("docs")
    ScheduledActions(app, runtime=made)
    client = app.test_client()

    def curl(words):
        given = dict(pairwise(words[1:]))
        assert {word for word in words if word.startswith("-")} <= {"-X", "-H", "-d"}
        (url,) = [word for word in words if word.startswith("$URL")]
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}", "Content-Type": "application/json"}
        answer = client.open(
            url.removeprefix("$URL"), method=given.get("-X", "GET"), data=given.get("-d"), headers=headers
        )
        assert answer.status_code < 300, answer.text

    def do(block):
        if block.language == "python":
            exec(compile(block.text, block.section, "exec"), {})
            return
        for command in re.split(r"\n(?=curl |scheduled-actions )", block.text.replace("\\\n", " ")):
            words = shlex.split(command, comments=True)
            if words[0] == "curl":
                curl(words)
            else:
                ran = run(*words[1:])
                assert ran.exit_code == 0, ran.stderr

    before = runtime.use(made)
    yield do
    runtime.use(before)
    made.close()


#: Of the deadlines: the sections that say the same three times.
STORIES = [
    "Contract renewals: 90, 60, 30",
    "HR reviews, every year",
    "Quarterly finance reports",
    "Purchase orders: escalate if not done in 24 hours",
]


def test_each_story_of_deadlines_is_told_three_ways_that_set_one_and_the_same(follow, connection):
    blocks = [block for block in shown_on("deadlines.md") if not is_a_handler(block)]

    for story in STORIES:
        ways = [block for block in blocks if block.section == story]
        assert [block.language for block in ways] == ["python", "sh", "sh"], story
        for way in ways:
            follow(way)
        # Asked for again under its name, in other words for the same: what was set stands as it was.
        told = connection.execute("select history from scheduled_action_deadlines").fetchall()
        assert {tuple(entry["what"] for entry in history) for (history,) in told} == {("set",)}, story
    for block in blocks:
        if block.section not in STORIES and "export " not in block.text:
            follow(block)

    rows = connection.execute("select coalesce(name, target_id), status from scheduled_action_deadlines").fetchall()
    assert sorted(rows) == [
        ("43", "open"),
        ("PO-9", "completed"),
        ("contract-7", "completed"),
        ("review of ann", "open"),
        ("trade licence", "completed"),
        ("vat report", "open"),
    ]


def test_orders_wait_and_tickets_escalate_in_three_ways(follow, connection):
    for story in ("A purchase order, submitted when it is approved", "Escalate what is not done in 24 hours"):
        for block in shown_on("wait-for-conditions.md"):
            if block.section == story and not is_a_handler(block):
                follow(block)
    runtime.current().processor.tick()
    of_today = connection.execute("select action_type, status from scheduled_actions order by id").fetchall()
    set_clock(connection, TODAY.replace(day=3))
    runtime.current().processor.tick()
    of_tomorrow = connection.execute("select action_type, status from scheduled_actions order by id").fetchall()

    assert of_today == [("order:submit", "completed")] * 3 + [("ticket:escalate", "pending")] * 3
    assert of_tomorrow == [("order:submit", "completed")] * 3 + [("ticket:escalate", "completed")] * 3
