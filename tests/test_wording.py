"""Phrases that a reader has to read twice are not used; `make lint` runs this file."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: README and docs/ join when their prose is rewritten.
CHECKED = (
    "scheduled_actions",
    "handlers",
    "examples",
    "tests",
    "benchmarks",
    "registry_build.py",
    "Makefile",
    "docs/decisions",
)
SUFFIXES = {".py", ".html", ".sql", ".toml", ".txt", ".md", ".js", ".css", ""}
PHRASES = (
    "mend",
    "mends",
    "mended",
    "anew",
    "nag",
    "nags",
    "nagging",
    "beside",
    "is told",
    "are told",
    "was told",
    "were told",
    "tells of",
    "told of",
    "so many",
    "nobody",
    "nobody's",
    "somebody",
    "somebody's",
    "whoever",
    "whosever",
    "strangers",
    "the world",
    "stands in",
    "stand in",
    "comes along",
    "come along",
    "in the manner of",
    "none is",
    "what is no",
    "again and again",
    "as far as",
    "unless said",
    "at three in the morning",
    "is no literal",
    "is no setting",
    "what comes next",
    "cut short",
)
PATTERN = re.compile(
    r"\b(" + "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in PHRASES) + r")\b", re.IGNORECASE
)


def _phrases(text):
    # The name of a Unix account.
    text = text.replace('"nobody"', "")
    return [(text.count("\n", 0, found.start()) + 1, found.group()) for found in PATTERN.finditer(text)]


def test_no_file_uses_a_phrase_that_has_a_plainer_form():
    tracked = subprocess.run(["git", "ls-files", *CHECKED], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [
        ROOT / name for name in tracked.stdout.splitlines() if Path(name).suffix in SUFFIXES and ".min." not in name
    ]
    files = [file for file in files if file.is_file() and file != Path(__file__)]

    found = [
        f"{file.relative_to(ROOT)}:{line}: {phrase}"
        for file in files
        for line, phrase in _phrases(file.read_text(encoding="utf-8"))
    ]

    assert len(files) > 500
    assert not found, "write it plainly:\n" + "\n".join(found)


@pytest.mark.parametrize("text", ["Nobody hears it", "a failure that no attempt\ncan mend", "what is\nno literal text"])
def test_a_phrase_is_found_in_any_case_and_across_lines(text):
    assert _phrases(text)


def test_a_word_that_contains_a_phrase_is_not_found():
    assert not _phrases("a recommendation, amended; tomorrow night; so manyfold")
