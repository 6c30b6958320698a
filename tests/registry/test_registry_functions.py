"""Functions of recurrences are found by name in the text of `handlers/`, and imported on their first call."""

from __future__ import annotations

import runpy
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from scheduled_actions import action, next_occurrence, skip_occurrence
from scheduled_actions.core.errors import HandlerBroken, InvalidArgument, RegistryInvalid
from scheduled_actions.operations import registry_build
from scheduled_actions.registry import Registry, generated
from scheduled_actions.registry.generated import RegistryContent

if TYPE_CHECKING:
    from pathlib import Path

IMPORT = "from scheduled_actions import action, next_occurrence, skip_occurrence\n"
MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CALENDAR = (
    "from datetime import timedelta\n"
    "@next_occurrence('payday')\ndef payday(moment): return moment + timedelta(days=7)\n"
    "@skip_occurrence('payday')\ndef is_payday(local): return 'paid already'\n"
    "@skip_occurrence('school-holidays')\ndef is_holiday(local): return local.month == 8\n"
)


def write_handlers(project: Path, **modules: str) -> Path:
    """Write handlers, by module name."""
    for name, text in modules.items():
        path = project / "handlers" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{IMPORT}{text}\n", encoding="utf-8")
    return project


def problem_of(project: Path) -> str:
    with pytest.raises(RegistryInvalid) as refusal:
        registry_build.write(project)
    assert not (project / "handlers" / "_registry.py").exists()
    return str(refusal.value)


def test_the_generated_file_contains_functions_and_handlers(tmp_path):
    write_handlers(tmp_path, calendar=CALENDAR)

    built = registry_build.write(tmp_path)

    functions = {
        "next:payday": "handlers.calendar:payday",
        "skip:payday": "handlers.calendar:is_payday",
        "skip:school-holidays": "handlers.calendar:is_holiday",
    }
    assert built.functions == generated.read(tmp_path).functions == functions
    assert built.text.endswith(
        "\nFUNCTIONS: dict[str, str] = {\n"
        '    "next:payday": "handlers.calendar:payday",\n'
        '    "skip:payday": "handlers.calendar:is_payday",\n'
        '    "skip:school-holidays": "handlers.calendar:is_holiday",\n'
        "}\n"
    )
    assert runpy.run_path(str(built.path))["FUNCTIONS"] == functions


def test_a_generated_file_without_functions_can_be_read(project):
    (project / "handlers" / "_registry.py").write_text("HANDLERS = {'a:one': 'handlers.email:one'}\n")

    registry = Registry.load(project)

    assert registry.types == {"a:one"}
    assert (dict(registry.functions.next), dict(registry.functions.skip)) == ({}, {})


def test_functions_are_imported_on_their_first_call(project):
    write_handlers(project, calendar=CALENDAR, other="@next_occurrence('x')\ndef x(moment): ...\n")
    functions = registry_build.load(project).functions
    assert not [name for name in sys.modules if name.startswith("handlers")]

    assert functions.next["payday"](MOMENT) == MOMENT + timedelta(days=7)
    assert functions.skip["payday"](MOMENT) == "paid already"
    assert functions.skip["school-holidays"](MOMENT) is False
    assert (set(functions.next), set(functions.skip)) == ({"payday", "x"}, {"payday", "school-holidays"})
    assert "handlers.other" not in sys.modules


def test_a_function_and_a_handler_may_have_the_same_name(project):
    write_handlers(
        project,
        email="@action('next:payday')\ndef one(payload): return 'handled'\n"
        "@next_occurrence('payday')\ndef two(moment): return None\n",
    )
    registry = registry_build.load(project)

    assert registry.functions.next["payday"](MOMENT) is None
    assert registry.resolve("next:payday").function({}) == "handled"


def test_the_functions_of_a_broken_module_raise_its_import_error(project):
    write_handlers(project, calendar=f"import no_such_module\n{CALENDAR}")
    functions = registry_build.load(project).functions

    for function in (functions.next["payday"], functions.skip["payday"], functions.next["payday"]):
        with pytest.raises(HandlerBroken, match="No module named 'no_such_module'"):
            function(MOMENT)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def other(moment): ...", "its module has no such function: run `python registry_build.py`"),
        ("def payday(moment): ...", "it is not declared, or a decorator above hides the declaration"),
        ("@skip_occurrence('payday')\ndef payday(moment): ...", 'it is declared as "skip:payday": run `python'),
        ("@next_occurrence('payday')\nasync def payday(moment): ...", "calling it would run nothing: write def"),
        ("@next_occurrence('payday')\ndef payday(moment):\n  yield", "return instead of yield"),
    ],
)
def test_a_function_that_does_not_match_the_registry_is_rejected(project, text, reason):
    write_handlers(project, calendar=text)
    functions = Registry(
        project, RegistryContent(handlers={}, functions={"next:payday": "handlers.calendar:payday"})
    ).functions

    with pytest.raises(HandlerBroken) as broken:
        functions.next["payday"](MOMENT)

    assert reason in str(broken.value)
    assert str(broken.value).startswith('the function "next:payday" (handlers.calendar:payday) cannot be used: ')


def test_an_exception_of_a_function_reaches_the_caller(project):
    write_handlers(project, calendar="@next_occurrence('payday')\ndef payday(moment): return {}['key']\n")

    with pytest.raises(KeyError, match="key"):
        registry_build.load(project).functions.next["payday"](MOMENT)


def test_a_registry_can_be_built_from_functions():
    @next_occurrence("payday")
    def payday(moment):
        return moment + timedelta(days=1)

    @skip_occurrence("payday")
    def is_payday(local):
        return True

    registry = Registry.of(payday, is_payday, action("a:one")(lambda payload: None))

    assert registry.types == {"a:one"}
    assert registry.functions.next["payday"](MOMENT) == MOMENT + timedelta(days=1)
    assert registry.functions.skip["payday"](MOMENT) is True


def test_two_functions_of_one_name_are_rejected():
    @next_occurrence("payday")
    def payday(moment): ...

    with pytest.raises(RegistryInvalid, match=r'"next:payday" already has a function: .*payday'):
        Registry.of(payday, next_occurrence("payday")(lambda moment: moment))
    with pytest.raises(InvalidArgument, match="declared with"):
        Registry.of(payday, len)


def test_the_digest_changes_with_functions(project):
    digests = set()
    for name in ("payday", "holiday"):
        write_handlers(project, calendar=f"@next_occurrence('{name}')\ndef one(moment): ...\n")
        digests.add(registry_build.load(project).digest)

    assert len(digests) == 2


@pytest.mark.parametrize(
    "text",
    [
        "from scheduled_actions import next_occurrence as after\n@after('payday')\ndef payday(moment): ...",
        (
            "from scheduled_actions.schedules.project_functions import *\n"
            "@next_occurrence('payday')\ndef payday(moment): ..."
        ),
        "from scheduled_actions import *\n@next_occurrence(name='payday')\ndef payday(moment): ...",
        "import scheduled_actions as sa\n@sa.next_occurrence('payday')\ndef payday(moment): ...",
        (
            "import scheduled_actions.schedules.project_functions as f\n"
            "@f.next_occurrence('payday')\ndef payday(moment): ..."
        ),
    ],
)
def test_every_import_style_of_the_decorator_is_found(tmp_path, text):
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "calendar.py").write_text(text)

    assert registry_build.build(tmp_path).functions == {"next:payday": "handlers.calendar:payday"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@next_occurrence\ndef f(m): ...", '2: the name is missing: write @next_occurrence("payday")'),
        (
            "@next_occurrence()\ndef f(m): ...",
            "2: the name must be a string literal, because handlers are read without running them: write",
        ),
        (
            "@skip_occurrence(NAME)\ndef f(m): ...",
            "2: the name must be a string literal, because handlers are read without running them: write",
        ),
        ("@next_occurrence('pay day')\ndef f(m): ...", "2: name: 'pay day' is not a function name"),
        ("@next_occurrence('x', zone=1)\ndef f(m): ...", "2: @next_occurrence has no argument zone"),
        ("@next_occurrence('x', **more)\ndef f(m): ...", "2: @next_occurrence has no argument **"),
        ("@next_occurrence('x')\nasync def f(m): ...", "2: @next_occurrence does not work with async def"),
        (
            "class A:\n  @skip_occurrence('x')\n  def f(m): ...",
            "3: @skip_occurrence belongs on a def at the module's top",
        ),
        ("@next_occurrence('x')\ndef f(m): ...\ndef f(): ...", "2: f is defined again on line 4, which hides this fun"),
        (
            "@next_occurrence('x')\n@skip_occurrence('x')\ndef f(m): ...",
            "3: a function can only be declared once: write a second",
        ),
        (
            "@action('a:one')\n@next_occurrence('x')\ndef f(m): ...",
            "3: a function can only be declared once: write a second",
        ),
        (
            "@next_occurrence('x')\ndef f(m): ...\n@next_occurrence('x')\ndef g(m): ...",
            '4: @next_occurrence("x") already exists: handlers.calendar:f in handlers/calendar.py:2',
        ),
    ],
)
def test_a_mistake_in_a_function_is_an_error_with_its_file_and_line(tmp_path, text, expected):
    write_handlers(tmp_path, calendar=text)

    assert problem_of(tmp_path).startswith(f"handlers/calendar.py:{expected}")


def test_a_function_in_a_file_whose_name_cannot_be_imported_is_an_error(tmp_path):
    write_handlers(tmp_path, **{"my-calendar": CALENDAR})

    assert "handlers/my-calendar.py:1: the file contains handlers, but cannot be imported" in problem_of(tmp_path)
