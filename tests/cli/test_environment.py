"""The `.env` of a project directory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduled_actions import environment
from scheduled_actions.errors import ConfigInvalid


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
        ("NAME= # said", ""),
        ("NAME=#fff", "#fff"),
        ("NAME=a#b", "a#b"),
        ("NAME=a=b", "a=b"),
        ("NAME=it's", "it's"),
        ('NAME=say "hi"', 'say "hi"'),
        ("NAME=$HOME ${HOME} `id`", "$HOME ${HOME} `id`"),
        ('NAME="two words"', "two words"),
        ('NAME= "value"  # said', "value"),
        ('NAME="value"#said', "value"),
        (r'NAME="a\nb\tc\rd\"e\\f\$g"', 'a\nb\tc\rd"e\\f$g'),
        (r'NAME="C:\dir"', r"C:\dir"),
        ('NAME="a # b"', "a # b"),
        ("NAME=' as it $stands \"\\n '", ' as it $stands "\\n '),
        ('NAME=""', ""),
        ("NAME=''", ""),
        ("\ufeffNAME=value", "value"),
        ("NAME=first\nNAME=second", "second"),
        ("# a\n\n   # b\nNAME=value\n", "value"),
        ("A=1\r\nNAME=value\r\n", "value"),
        ("NAME=a\u2028b", "a\u2028b"),
    ],
)
def test_a_line_gives_a_variable(tmp_path, line, wanted):
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
        ('A="hunter2', 1, "opens a quote that is not closed"),
        ("A='hunter2", 1, "opens a quote that is not closed"),
        ('A="hunter2\\"', 1, "opens a quote that is not closed"),
        ('A="hun"ter2"', 1, "has text after the closing quote"),
        ("A=hunter2\0", 1, "holds a NUL character"),
    ],
)
def test_a_line_that_is_no_assignment_is_named_by_its_number_and_never_repeated(tmp_path, text, number, problem):
    (tmp_path / ".env").write_text(text, encoding="utf-8", newline="")

    with pytest.raises(ConfigInvalid, match=rf"^\.env: line {number}: {problem}") as caught:
        environment.load(tmp_path, {})

    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)


def test_what_is_set_wins_even_when_it_is_empty(tmp_path):
    (tmp_path / ".env").write_text("A=file\nB=file\nC=file\n", encoding="utf-8")

    assert environment.load(tmp_path, {"A": "set", "B": ""}) == {"A": "set", "B": "", "C": "file"}


def test_without_a_file_the_environment_stands_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("ONLY_HERE", "yes")

    assert environment.load(tmp_path, {"A": "1"}) == {"A": "1"}
    assert environment.load(tmp_path)["ONLY_HERE"] == "yes"


def test_a_file_that_cannot_be_read_is_an_error_that_says_so(tmp_path):
    (tmp_path / ".env").mkdir()

    with pytest.raises(ConfigInvalid, match=r"^\.env: the file: cannot be read: Is a directory$"):
        environment.load(tmp_path, {})


def test_a_file_that_is_no_text_is_an_error_that_repeats_nothing(tmp_path):
    (tmp_path / ".env").write_bytes(b"SECRET=hunter2\xff")

    with pytest.raises(ConfigInvalid, match=r"^\.env: the file: is not UTF-8 text$"):
        environment.load(tmp_path, {})


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_every_value_can_be_written_between_double_quotes(value):
    written = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")

    assert environment.parse(f'NAME="{written}"') == {"NAME": value}


@given(st.text())
def test_no_text_gives_another_error(text):
    try:
        environment.parse(text)
    except ConfigInvalid as error:
        assert error.key.startswith("line ")  # noqa: PT017 - either is right
