"""The examples of the how-to pages on deadlines and conditions run, and their three variants have the same result."""

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
#: Earlier than the dates on the pages.
TODAY = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


class Block(NamedTuple):
    """A code block of a page."""

    section: str
    language: str
    text: str


def code_blocks(page):
    """Return the blocks of a page, each with the heading above it."""
    parts = re.split(r"^## (.*)$", (PAGES / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    sections = [("", parts[0]), *zip(parts[1::2], parts[2::2], strict=True)]
    return [
        Block(section, language, text)
        for section, body in sections
        for language, text in re.findall(r"```(python|sh)\n(.*?)```", body, re.DOTALL)
    ]


def is_handler(block):
    return block.text.startswith("# handlers/")


@pytest.fixture
def follow(project, run, database_url, connection):
    """Return a function that runs a code block in a project with the handlers of the pages."""
    for name in ("deadline.py", "email.py"):
        shutil.copy(ROOT / "handlers" / name, project / "handlers" / name)
    for block in filter(is_handler, code_blocks("deadlines.md") + code_blocks("wait-for-conditions.md")):
        path = project / re.match(r"# (\S+)", block.text)[1]
        path.write_text(block.text, encoding="utf-8")
    registry_build.write(project)
    set_clock(connection, TODAY)
    environ = {"DATABASE_URL": database_url, "CRON_SECRET": CRON_SECRET, "ADMIN_TOKEN": ADMIN_TOKEN}
    project_runtime = Runtime(config.load(project, environ))
    app = Flask("docs")
    ScheduledActions(app, runtime=project_runtime)
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

    before = runtime.use(project_runtime)
    yield do
    runtime.use(before)
    project_runtime.close()


#: The sections on deadlines that show the same example in three variants.
EXAMPLES = [
    "Contract renewals: 90, 60, 30",
    "HR reviews, every year",
    "Quarterly finance reports",
    "Purchase orders: escalate if not done in 24 hours",
]


def test_the_three_variants_of_each_deadline_example_set_the_same_deadline(follow, connection):
    blocks = [block for block in code_blocks("deadlines.md") if not is_handler(block)]

    for example in EXAMPLES:
        variants = [block for block in blocks if block.section == example]
        assert [block.language for block in variants] == ["python", "sh", "sh"], example
        for variant in variants:
            follow(variant)
        # The later variants repeat the first one under the same name, so they change nothing.
        histories = connection.execute("select history from scheduled_action_deadlines").fetchall()
        assert {tuple(entry["what"] for entry in history) for (history,) in histories} == {("set",)}, example
    for block in blocks:
        if block.section not in EXAMPLES and "export " not in block.text:
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


def test_orders_wait_and_tickets_escalate_in_all_three_variants(follow, connection):
    for example in ("A purchase order, submitted when it is approved", "Escalate what is not done in 24 hours"):
        for block in code_blocks("wait-for-conditions.md"):
            if block.section == example and not is_handler(block):
                follow(block)
    runtime.current().processor.tick()
    on_the_first_day = connection.execute("select action_type, status from scheduled_actions order by id").fetchall()
    set_clock(connection, TODAY.replace(day=3))
    runtime.current().processor.tick()
    on_the_second_day = connection.execute("select action_type, status from scheduled_actions order by id").fetchall()

    assert on_the_first_day == [("order:submit", "completed")] * 3 + [("ticket:escalate", "pending")] * 3
    assert on_the_second_day == [("order:submit", "completed")] * 3 + [("ticket:escalate", "completed")] * 3
