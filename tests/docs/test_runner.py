"""The runner of the pages notices what a reader would notice."""

from __future__ import annotations

import tomllib

import pytest

from tests.docs import pages
from tests.docs.installations import environ
from tests.docs.shell import Shell
from tests.docs.test_pages import Reader


def read(*parts):
    return pages.read("page.md", "\n".join(parts))


def fence(language, *lines):
    return "\n".join([f"```{language}", *lines, "```"])


@pytest.fixture
def shell(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Shell(tmp_path, environ(None), scratch) as shell:
        yield shell


def test_a_comment_applies_to_the_next_block_only():
    first, second = read("<!-- not run: it needs a host -->", fence("sh", "a"), fence("sh", "b"))

    assert first.marks == {"not run": "it needs a host"}
    assert second.marks == {}


def test_a_text_block_after_a_command_is_its_output():
    command, output = read(fence("sh", "a"), "prints", fence("text", "b"))

    assert command.output is output


def test_a_second_text_block_is_not_an_output():
    command, output, other = read(fence("sh", "a"), fence("text", "b"), fence("text", "c"))

    assert command.output is output
    assert other.output is None


def test_a_hidden_python_block_is_put_in_front_of_the_next_block():
    (block,) = read("<!-- hidden python", "x = 1", "-->", fence("python", "print(x)"))

    assert block.text == "x = 1\nprint(x)\n"


def test_a_block_within_a_list_is_dedented():
    (block,) = read("1. Do", "", "   ```sh", "   a", "     b", "   ```")

    assert block.text == "a\n  b\n"


def test_a_hidden_block_within_a_list_is_dedented():
    (block,) = read("1. Do", "", "   <!-- hidden sh", "   a", "     b", "   -->")

    assert block.text == "a\n  b\n"


def test_a_first_line_with_a_path_makes_a_file():
    (block,) = read(fence("python", "# handlers/orders.py", "x = 1"))

    assert block.file == "handlers/orders.py"
    assert not block.is_command


@pytest.mark.parametrize(
    "text",
    [fence("", "a"), fence("basic", "a"), "<!-- background is running -->\n" + fence("sh", "a"), "<!-- fails -->"],
    ids=["no language", "unknown language", "unknown comment", "comment without a block"],
)
def test_what_the_runner_would_not_understand_is_an_error(text):
    with pytest.raises(pages.PageInvalid):
        read(text)


def test_sections_are_added_at_the_end_of_the_settings_and_other_settings_at_the_top(tmp_path):
    settings = tmp_path / "scheduled_actions.toml"
    settings.write_text("[retry]\nbase_seconds = 1\n")

    Reader.add_settings(settings, "linger_seconds = 5\n")
    Reader.add_settings(settings, "[queries.a]\nsql = 'select 1'\n")

    assert tomllib.loads(settings.read_text()) == {
        "linger_seconds": 5, "retry": {"base_seconds": 1}, "queries": {"a": {"sql": "select 1"}},
    }  # fmt: skip


SHOWN_AND_PRINTED = [
    ("text", "id …  pending", "id 019a   pending\n", True),
    ("text", "id …  pending", "id 019a failed\n", False),
    ("text", "a\nc", "a\nb\nc\n", False),
    ("text", "a\n…\nc", "a\nb\nc\n", True),
    ("text", "a", "a\nb\n", False),
    ("text", "a\n…", "a\nb\n", True),
    ("text", "a\nb", "a\n", False),
    ("text", "b", "a\nb\n", False),
    ("json", '{"n": 1}', 'curl: note\n{"n": 1, "more": true}', True),
    ("json", '{"n": 1}', '{"n": 2}', False),
    ("json", '{"n": 1}', '{"more": true}', False),
    ("json", '{"n": 1}', "no answer", False),
    ("json", '{"id": "019…"}', '{"id": "019a"}', True),
    ("json", '{"id": "019…"}', '{"id": "a019"}', False),
    ("json", '{"a": [{"n": 1}]}', '{"a": [{"n": 1}, {"n": 2}]}', False),
]


@pytest.mark.parametrize(("language", "shown", "printed", "fits"), SHOWN_AND_PRINTED)
def test_what_a_command_printed_is_compared_with_what_the_page_shows(language, shown, printed, fits):
    _, output = read(fence("sh", "a"), fence(language, shown))

    assert (pages.difference(output, printed) is None) is fits


def test_directory_and_variables_last_until_the_next_block(shell):
    shell.run("mkdir inside && cd inside\nexport NAME=Ada\n")

    assert shell.run('echo "$NAME in $(basename $PWD)"').output == "Ada in inside\n"


def test_a_new_terminal_starts_as_the_first_one_did(shell):
    first = shell.run("pwd").output
    shell.run("mkdir inside && cd inside\nexport NAME=Ada\n")

    shell.open_terminal()

    assert shell.run('pwd; echo "name: $NAME"').output == f"{first}name: \n"


def test_a_failed_command_is_named_whatever_follows_it(shell):
    ran = shell.run("true\nls /no/such/file\necho done\n")

    assert [line.split(":")[0] for line in ran.failed] == ["2"]
    assert ran.output.endswith("done\n")


def test_a_failure_inside_a_condition_is_none(shell):
    assert shell.run("if ! false; then echo so; fi\nfalse || true\n").failed == []


def test_a_command_in_the_background_runs_until_the_shell_ends(tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Shell(tmp_path, environ(None), scratch) as shell:
        shell.start("trap 'echo stopped > stopped; exit' TERM; echo ready; while :; do sleep 0.05; done", "ready")
        assert not (tmp_path / "stopped").exists()

    assert (tmp_path / "stopped").read_text() == "stopped\n"


def test_what_a_command_in_the_background_prints_is_seen_once_and_in_order(shell):
    (shown,) = read("<!-- in the background -->", fence("text", "reloaded", "… actions"))
    shell.start("echo ready; echo reloaded; echo 2 actions; echo end; sleep 60", "end")

    seen = [shell.background_shows(lambda printed: pages.is_part_of(printed, shown)) for _ in range(2)]

    assert seen == [True, False]


def test_a_text_in_the_background_is_not_the_output_of_the_command_before_it():
    command, shown = read(fence("sh", "a"), "<!-- in the background -->", fence("text", "b"))

    assert command.output is None
    assert shown.marks == {"in the background": ""}


def test_a_command_in_the_background_that_ends_too_early_is_reported(shell):
    with pytest.raises(AssertionError, match=r"ended:\nno port"):
        shell.start("echo no port", "ready")
