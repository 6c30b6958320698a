"""Regular expressions of the package match in time linear in the length of the text.

`re` holds the interpreter's lock, so one slow match stops every thread of the process. For each repetition in each
pattern, the test builds a text that repeats a sample of the repeated part and then fails to match.
"""

from __future__ import annotations

import ast
import importlib
import re
import time
from collections import defaultdict
from pathlib import Path
from re import (
    _constants as op,  # type: ignore[attr-defined]
    _parser as parser,  # type: ignore[attr-defined]
)

import pytest

import scheduled_actions

PACKAGE = Path(scheduled_actions.__file__).parent
FUNCTIONS = {"match", "fullmatch", "search", "sub", "split", "findall", "finditer"}
#: Shorter measurements are noise, in seconds.
FLOOR = 0.004
#: Modules whose patterns only match text from the operator, never from a request.
OPERATOR_ONLY = {
    "core.config.checks",
    "database.concurrent_indexes",
    "database.embedded.cluster",
    "local.environment",
    "local.project_template",
    "registry.generated",
}


def _patterns() -> dict[str, tuple[re.Pattern, set[str]]]:
    """Return the patterns of the package by location, each with the `re` functions that apply it."""
    found: dict[str, tuple[re.Pattern, set[str]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if "import re\n" in text and name not in OPERATOR_ONLY:
            variables = vars(importlib.import_module(f"scheduled_actions.{name}"))
            found |= {f"{name}:{place}": one for place, one in _patterns_of(ast.parse(text), variables).items()}
    return found


def _patterns_of(tree, variables) -> dict[str, tuple[re.Pattern, set[str]]]:
    found: dict[str, tuple[re.Pattern, set[str]]] = {}
    used = defaultdict(set)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=function)) if function in FUNCTIONS:
                given = node.args[0]
                pattern = given.value if isinstance(given, ast.Constant) else variables.get(ast.unparse(given))
                if isinstance(pattern, str):
                    flags = re.IGNORECASE if "IGNORECASE" in ast.unparse(node) else 0
                    found[repr(pattern)] = (re.compile(pattern, flags), {function})
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=function)) if function in FUNCTIONS:
                used[owner].add(function)
    patterns = ((name, value) for name, value in variables.items() if isinstance(value, re.Pattern) and used[name])
    return found | {name: (value, used[name]) for name, value in patterns}


PATTERNS = _patterns()


def _sample(tree) -> str:
    """Return a short text that a part of a pattern matches."""
    return "".join(_sample_of(*node) for node in tree)


def _sample_of(code, argument) -> str:  # noqa: PLR0911 - a return a case
    match code:
        case op.LITERAL:
            return chr(argument)
        case op.NOT_LITERAL:
            return "a" if chr(argument) != "a" else "b"
        case op.ANY:
            return "a"
        case op.IN:
            return _member(argument)
        case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
            return _sample(argument[2]) * max(argument[0], 1)
        case op.SUBPATTERN:
            return _sample(argument[3])
        case op.BRANCH:
            return _sample(argument[1][0])
        case _:
            return ""


def _member(items) -> str:
    single = re.compile("[" + "".join(map(_written, items)) + "]")
    return next((one for one in "a0 x/-.:,;Zz_~\t\x80" if single.match(one)), "a")


def _written(item) -> str:
    code, argument = item
    match code:
        case op.NEGATE:
            return "^"
        case op.LITERAL:
            return re.escape(chr(argument))
        case op.RANGE:
            return f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        case _:
            names = {op.CATEGORY_DIGIT: r"\d", op.CATEGORY_WORD: r"\w", op.CATEGORY_SPACE: r"\s"}
            return names.get(argument, str(names.get(_opposite(argument), "")).upper())


def _opposite(category):
    return getattr(op, str(category).replace("_NOT_", "_"))


def _repetitions(tree, before: str = ""):
    """Yield, for each long repetition, a sample of what precedes it and of what it repeats."""
    for code, argument in tree:
        match code:
            case op.MAX_REPEAT | op.MIN_REPEAT:
                if argument[1] > 20:
                    yield before, _sample(argument[2])
                yield from _repetitions(argument[2], before)
            case op.SUBPATTERN:
                yield from _repetitions(argument[3], before)
            case op.BRANCH:
                for branch in argument[1]:
                    yield from _repetitions(branch, before)
        before += _sample_of(code, argument)


def _seconds(apply, text: str) -> float:
    begun = time.thread_time()
    apply(text)
    return time.thread_time() - begun


@pytest.mark.parametrize("place", PATTERNS)
def test_matching_takes_linear_time(place):
    pattern, functions = PATTERNS[place]
    is_anchored = functions <= {"match", "fullmatch"}
    apply = pattern.fullmatch if is_anchored else pattern.search
    for before, repeated in _repetitions(parser.parse(pattern.pattern, pattern.flags)):
        for text in (lambda n: before + repeated * n + "\x00", lambda n: repeated * n + "\x00"):  # noqa: B023
            # Short texts first: exponential time is found before a match takes minutes.
            for length in range(8, 40, 2):
                assert _seconds(apply, text(length)) < 20 * FLOOR, f"{repeated!r} {length} times after {before!r}"
            short, long = (min(_seconds(apply, text(n)) for _ in range(3)) for n in (3_000, 12_000))
            assert long < FLOOR or long < 8 * short, f"{repeated!r} 12,000 times after {before!r}: {short} s, {long} s"
