"""Environment variables of a project: its `.env` file, or the output of SCHEDULED_ACTIONS_ENV_COMMAND."""

from __future__ import annotations

import shlex
import sys
import time

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.core.errors import ConfigInvalid
from scheduled_actions.local import environment


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("NAME=value", "value"),
        ("NAME=", ""),
        ("  NAME = value  ", "value"),
        ("export NAME=value", "value"),
        ("export\tNAME=value", "value"),
        ("NAME=two words", "two words"),
        ("NAME=value # said", "value"),
        ("NAME=value\t# said", "value"),
        ("NAME=#fff", "#fff"),
        ("NAME=a#b", "a#b"),
        ("NAME=a=b", "a=b"),
        ("NAME=it's", "it's"),
        ('NAME=say "hi"', 'say "hi"'),
        ("NAME=$HOME ${HOME} `id`", "$HOME ${HOME} `id`"),
        ('NAME="two words"', "two words"),
        ('NAME= "value"  # said', "value"),
        ('NAME="value"#said', "value"),
        (r'NAME="a\nb\tc\rd\"e\\f$g"', 'a\nb\tc\rd"e\\f$g'),
        (r'NAME="C:\dir"', r"C:\dir"),
        ('NAME="a # b"', "a # b"),
        ("NAME=' as it $stands \"\\n '", ' as it $stands "\\n '),
        ('NAME=""', ""),
        ("NAME=''", ""),
        ("\ufeffNAME=value", "value"),
        ("NAME=value\nNAME=value", "value"),
        ('NAME="two\nlines"', "two\nlines"),
        ("# a\n\n   # b\nNAME=value\n", "value"),
        ("A=1\r\nNAME=value\r\n", "value"),
        ("NAME=a\u2028b", "a\u2028b"),
    ],
)
def test_a_line_sets_a_variable(tmp_path, line, wanted):
    (tmp_path / ".env").write_text(line, encoding="utf-8", newline="")

    assert environment.load(tmp_path, {})["NAME"] == wanted


@pytest.mark.parametrize(
    ("text", "number", "problem"),
    [
        ("hunter2", 1, "is not NAME=VALUE"),
        ("A=1\n\n# b\nhunter2 too", 4, "is not NAME=VALUE"),
        ("A=1\r\n=hunter2", 2, "is not NAME=VALUE"),
        ("1A=hunter2", 1, "is not NAME=VALUE"),
        ("A-B=hunter2", 1, "is not NAME=VALUE"),
        ('A="hunter2', 1, "is not NAME=VALUE"),
        ("A='hunter2", 1, "is not NAME=VALUE"),
        ('A="hunter2\\"', 1, "is not NAME=VALUE"),
        ('A="hun"ter2"', 1, "is not NAME=VALUE"),
        ("A=1\nB=hunter2\nB=hunter3", 3, "sets B again, to another value than line 2: remove one of them"),
        ("\n\nB=hunter2\n\n# b\n\n\nB=hunter3", 8, "sets B again, to another value than line 3"),
        ("\r\n\r\nB=hunter2\r\n\r\nB=hunter3\r\n", 5, "sets B again, to another value than line 3"),
        ('A="1\n2\n3"\n\nB=1\nhunter2\n', 6, "is not NAME=VALUE"),
        ('A="1\r\n2\r\n3"\r\n\r\nB=1\r\nhunter2\r\n', 6, "is not NAME=VALUE"),
        ("A='1\n\n2'\nA='1\n\nhunter2'\n", 4, "sets A again, to another value than line 1"),
        ("\n\n  A='hunter2\n\nB=1\n", 3, "is not NAME=VALUE"),
        ("A=hunter2\0", 1, "contains a NUL character"),
    ],
)
def test_an_invalid_line_is_named_by_its_number_and_not_printed(tmp_path, text, number, problem):
    (tmp_path / ".env").write_text(text, encoding="utf-8", newline="")

    with pytest.raises(ConfigInvalid, match=rf"^\.env: line {number} {problem}") as caught:
        environment.load(tmp_path, {})

    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_counted_in_the_output_of_a_program_as_in_the_file(tmp_path, end):
    (tmp_path / "decrypted").write_text(end.join(["", "", "A='1", "2'", "", "B=1", "B=2"]), newline="")

    with pytest.raises(ConfigInvalid, match="line 7 sets B again, to another value than line 6"):
        environment.load(tmp_path, {"SCHEDULED_ACTIONS_ENV_COMMAND": "cat decrypted"})


def test_a_set_variable_overrides_the_file_even_if_it_is_empty(tmp_path):
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\n", encoding="utf-8")

    assert environment.load(tmp_path, {"A": "set", "B": ""}) == {"A": "set", "B": "", "C": "file"}


def test_without_a_file_the_environment_is_unchanged(tmp_path, monkeypatch):
    monkeypatch.setenv("ONLY_HERE", "yes")

    assert environment.load(tmp_path, {"A": "1"}) == {"A": "1"}
    assert environment.load(tmp_path)["ONLY_HERE"] == "yes"


def test_an_unreadable_file_is_an_error(tmp_path):
    (tmp_path / ".env").mkdir()

    with pytest.raises(ConfigInvalid, match=r"^\.env cannot be read: Is a directory$"):
        environment.load(tmp_path, {})


def test_a_binary_file_is_an_error_that_does_not_print_its_content(tmp_path):
    (tmp_path / ".env").write_bytes(b"SECRET=hunter2\xff")

    with pytest.raises(ConfigInvalid, match=r"^\.env is not UTF-8 text: save it as UTF-8$"):
        environment.load(tmp_path, {})


# -- SCHEDULED_ACTIONS_ENV_COMMAND -------------------------------------------------------------------------------------


def _with_command(command, **others):
    return {"SCHEDULED_ACTIONS_ENV_COMMAND": command, **others}


def _python(text):
    return shlex.join([sys.executable, "-c", text])


def test_the_output_of_a_program_replaces_the_file(tmp_path):
    (tmp_path / ".env").write_text("A=file\nOTHER=file\n", encoding="utf-8")
    (tmp_path / ".env.enc").write_text("# decrypted\nexport A='a b'\nB=program\n", encoding="utf-8")
    environ = _with_command("cat .env.enc", B="set")

    assert environment.load(tmp_path, environ) == {**environ, "A": "a b", "B": "set"}


def test_an_empty_command_is_ignored(tmp_path):
    (tmp_path / ".env").write_text("A=file\n", encoding="utf-8")

    assert environment.load(tmp_path, _with_command(" "))["A"] == "file"


def test_the_command_runs_without_a_shell(tmp_path):
    words = _python("import sys; print('A=' + repr(sys.argv[1:]))") + " $(id) '>' \"a b\" ; | && *"

    assert environment.load(tmp_path, _with_command(words))["A"] == repr(["$(id)", ">", "a b", ";", "|", "&&", "*"])


def test_the_program_receives_the_environment_and_an_empty_input(tmp_path):
    words = _python("import os, sys; print('A=' + os.environ['KEY'] + sys.stdin.read())")

    assert environment.load(tmp_path, _with_command(words, KEY="my key"))["A"] == "my key"


_PRINT_SECRET = "import sys; print('A=hunter2'); print('hunter2', file=sys.stderr); "


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (_python(_PRINT_SECRET + "sys.exit(3)"), "failed with exit code 3; run it yourself to see why"),
        (_python(_PRINT_SECRET + "sys.stdout.flush(); import os; os.kill(os.getpid(), 9)"), "failed with signal 9"),
        (_python("print('hunter2')"), "COMMAND: line 1 is not NAME=VALUE"),
        (
            _python("print('A=\"hunter2')"),
            "COMMAND: line 1 is not NAME=VALUE",
        ),
        (_python("import os; os.write(1, b'A=hunter2' + bytes([255]))"), "did not print UTF-8 text"),
        ("there-is-no-such-program hunter2", "there-is-no-such-program was not found"),
        ("/ hunter2", "/ cannot be run: Permission denied"),
        ("sops 'hunter2", "has a quote that is not closed"),
        ("PASSWORD=hunter2 sops -d .env.enc", "must be a program and its arguments, without a shell: "),
    ],
)
def test_a_failed_program_is_named_and_its_output_is_not_printed(tmp_path, capfd, command, problem):
    with pytest.raises(ConfigInvalid) as caught:
        environment.load(tmp_path, _with_command(command))

    assert "SCHEDULED_ACTIONS_ENV_COMMAND" in str(caught.value)
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value) + "".join(capfd.readouterr())


def test_a_program_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "_COMMAND_SECONDS", 0.05)
    before = time.monotonic()

    with pytest.raises(
        ConfigInvalid, match=r"sleep was stopped after 0\.05 seconds; run it yourself to see what it waits for$"
    ):
        environment.load(tmp_path, _with_command("sleep 60"))

    assert time.monotonic() - before < 30


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_every_value_can_be_written_between_double_quotes(value):
    written = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")

    assert environment.parse(f'NAME="{written}"') == {"NAME": value}


@given(st.text())
def test_every_text_is_parsed_or_raises_config_invalid(text):
    try:
        environment.parse(text)
    except ConfigInvalid as error:
        assert error.key.startswith("line ")  # noqa: PT017 - either is right
