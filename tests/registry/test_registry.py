"""Handlers are found by type and imported on first use; a broken handler does not affect the others."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from scheduled_actions import Context, Exponential, action
from scheduled_actions.actions.validation import PayloadValidator
from scheduled_actions.core.errors import (
    HandlerBroken,
    InvalidArgument,
    PayloadInvalid,
    RegistryInvalid,
    UnknownActionType,
)
from scheduled_actions.core.requester import Requester
from scheduled_actions.operations import registry_build
from scheduled_actions.registry import Registry
from scheduled_actions.registry.generated import RegistryContent
from scheduled_actions.registry.handler import HandlerOptions
from scheduled_actions.registry.loading import FAILURE_SECONDS

if TYPE_CHECKING:
    from decimal import Decimal
    from pathlib import Path

IMPORT = "from __future__ import annotations\nfrom scheduled_actions import action\n"


class Clock:
    """A monotonic clock that tests advance."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def registry_of(project: Path, clock: Clock | None = None, **modules: str) -> Registry:
    """Return the registry of a project with these modules."""
    for name, text in modules.items():
        (project / "handlers" / f"{name}.py").write_text(text, encoding="utf-8")
    registry_build.write(project)
    return Registry.load(project, monotonic=clock or Clock())


class Welcome(BaseModel):
    to: str


@action("email:send", max_attempts=5, retry=Exponential(1), description="Send one email")
def send_email(payload: Welcome, context: Context) -> None:
    """A docstring that the declared description overrides."""


@action("a:plain", transactional=True)
def plain(payload):
    """First line.

    Second line.
    """


@action("a:async")
async def asynchronous(payload: list[Welcome]) -> None: ...


def test_a_handler_is_resolved_with_its_options_and_payload_model():
    registry = Registry.of(send_email, plain, asynchronous)

    handler = registry.resolve("email:send")

    assert handler.function is send_email
    assert handler.options.max_attempts == 5
    assert (handler.takes_context, handler.is_async) == (True, False)
    assert handler.description == "Send one email"
    assert handler.payload.validate_text('{"to": "ann"}') == Welcome(to="ann")
    assert registry.resolve("a:plain").description == "First line."
    assert registry.resolve("a:plain").takes_context is False
    assert registry.resolve("a:async").is_async is True
    assert registry.resolve("a:async").description == ""
    assert registry.resolve("email:send") is handler


def test_types_and_options_are_known_without_importing(project):
    registry = registry_of(
        project,
        email=f"{IMPORT}raise RuntimeError\n@action('a:one', max_attempts=7, timeout_seconds=LATER)\n"
        "def one(payload): ...\n@action('a:two')\ndef two(payload): ...\n",
    )

    assert registry.types == {"a:one", "a:two"}
    assert registry.declared("a:one") == {"max_attempts": 7}
    assert registry.declared("a:two") == registry.declared("x:y") == {}
    assert registry.options("a:one") == HandlerOptions(action_type="a:one", max_attempts=7)
    assert registry.options("x:y") == HandlerOptions(action_type="x:y")


def test_options_given_by_an_expression_are_known_after_the_import(project):
    registry = registry_of(
        project,
        email=f"{IMPORT}from scheduled_actions import Linear\n@action('a:one', max_attempts=3 + 4, retry=Linear(9))\n"
        "def one(payload): ...\n",
    )
    assert registry.options("a:one").max_attempts is None

    registry.resolve("a:one")

    assert registry.options("a:one").max_attempts == 7
    assert registry.options("a:one").retry.as_json()["kind"] == "linear"


def test_a_registry_of_functions_has_the_options_that_their_text_declares():
    registry = Registry.of(send_email, plain)

    assert registry.declared("email:send") == {"max_attempts": 5, "description": "Send one email"}
    assert registry.declared("a:plain") == {"transactional": True}
    assert registry.options("email:send").retry == Exponential(1)


def test_the_digest_changes_with_handlers_and_options_only(project):
    email = f"{IMPORT}@action('a:one', max_attempts=7)\ndef one(payload): ...\n"
    first = registry_of(project, email=email).digest

    assert registry_of(project, email=f"{email}# a comment\n").digest == first
    assert registry_of(project, email=email.replace("7", "8")).digest != first
    assert registry_of(project, email=email.replace("a:one", "a:two")).digest != first


def test_loading_reads_only_the_generated_file(project):
    registry_of(project, email=f"{IMPORT}@action('a:one', max_attempts=7)\ndef one(payload): ...\n")
    (project / "handlers" / "email.py").unlink()

    registry = Registry.load(project)

    assert registry.types == {"a:one"}
    assert registry.declared("a:one") == {"max_attempts": 7}


def test_a_project_without_the_generated_file_is_rejected(project):
    (project / "handlers" / "email.py").write_text(f"{IMPORT}@action('a:one')\ndef one(payload): ...\n")

    with pytest.raises(RegistryInvalid, match=r"the generated file is missing; run `python registry_build\.py`"):
        Registry.load(project)

    assert registry_build.load(project).types == Registry.load(project).types == {"a:one"}


def test_a_directory_without_handlers_is_named_as_not_the_project(tmp_path):
    with pytest.raises(RegistryInvalid, match=rf"no such folder in {tmp_path}: .* run the command in the project's"):
        Registry.load(tmp_path)


def test_the_error_for_an_unknown_type_names_the_most_similar_type():
    with pytest.raises(UnknownActionType, match='did you mean "email:send"'):
        Registry.of(send_email).resolve("emial:send")


@pytest.mark.parametrize(("requester", "is_named"), [(None, True), (Requester(team_id=None), False)])
def test_only_application_code_is_given_the_mistake_of_a_module_that_the_registry_lacks(project, requester, is_named):
    registry = registry_of(project, mail=f"{IMPORT}@action('email:send')\ndef send(payload: dict): ...\n")
    (project / "handlers" / "broken.py").write_text(f"{IMPORT}@action('email:read')\ndef read(\n", encoding="utf-8")

    with pytest.raises(UnknownActionType) as refused:
        PayloadValidator(registry, {}).handler("email:read", requester=requester)

    assert ("the registry cannot be built: handlers/broken.py:4: " in str(refused.value)) is is_named
    assert ('did you mean "email:send"?' in str(refused.value)) is not is_named


def test_modules_are_imported_from_the_project_on_first_use(project):
    registry = registry_of(
        project,
        email=f"{IMPORT}from handlers import shared\n@action('a:one')\ndef one(payload): return shared.ANSWER\n",
        other=f"{IMPORT}@action('a:two')\ndef two(payload): ...\n",
        shared="ANSWER = 42\n",
    )
    assert not [name for name in sys.modules if name.startswith("handlers")]

    handler = registry.resolve("a:one")
    registry_of(project).resolve("a:one")

    assert handler.function({}) == 42
    assert "handlers.other" not in sys.modules
    assert sys.path.index(str(project)) == 0
    assert sys.path.count(str(project)) == 1


def test_a_namespace_package_below_handlers_is_importable(project):
    (project / "handlers" / "deep" / "down").mkdir(parents=True)
    (project / "handlers" / "deep" / "down" / "mail.py").write_text(f"{IMPORT}@action('a:one')\ndef one(p): ...\n")

    assert registry_of(project).resolve("a:one").reference == "handlers.deep.down.mail:one"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' (handlers/email.py:3)"),
        ("\ndef f():\n  return {}['key']\nf()", "KeyError: 'key' (handlers/email.py:5)"),
        ("import sys; sys.exit('bye')", "SystemExit: bye (handlers/email.py:3)"),
        ("raise SystemExit", "SystemExit (handlers/email.py:3)"),
        ("raise GeneratorExit", "GeneratorExit (handlers/email.py:3)"),
        ("raise RuntimeError('first\\nsecond')", "RuntimeError: first (handlers/email.py:3)"),
        ("import handlers.half", "SyntaxError: invalid syntax (handlers/half.py:2)"),
        ("import json; json.loads('{')", "JSONDecodeError: Expecting property name enclosed in double quotes"),
        ("import json; json.loads('{')", "(handlers/email.py:3)"),
        ("raise ValueError('at postgresql://me:hunter2@host/db')", "ValueError: at postgresql://…@host/db"),
        ("raise ValueError('in host=h password=hunter2 user=u')", "in host=h password=… user=u"),
        ("raise ValueError('x' * 9999)", "…"),
    ],
)
def test_an_import_error_names_the_cause_file_and_line(project, text, reason):
    registry = registry_of(
        project,
        email=f"{IMPORT}{text}\n@action('a:one')\ndef one(payload): ...\n",
        other=f"{IMPORT}@action('a:two')\ndef two(payload): ...\n",
    )
    (project / "handlers" / "half.py").write_text("\ndef half(:\n")

    with pytest.raises(HandlerBroken) as broken:
        registry.resolve("a:one")

    assert reason in str(broken.value)
    assert str(broken.value).startswith('the handler of "a:one" (handlers.email:one) cannot be loaded: ')
    assert "hunter2" not in str(broken.value)
    assert len(str(broken.value)) < 500
    assert registry.resolve("a:two").takes_context is False


def test_the_error_for_a_module_deleted_since_the_build_names_the_build_command(project):
    registry = registry_of(project, email=f"{IMPORT}@action('a:one')\ndef one(payload): ...\n")
    (project / "handlers" / "email.py").unlink()

    with pytest.raises(HandlerBroken, match=r"No module named 'handlers\.email'; .* run `python registry_build\.py`"):
        registry.resolve("a:one")


def test_a_module_that_is_restored_is_imported_again(project):
    clock = Clock()
    text = f"{IMPORT}@action('a:one')\ndef one(payload): ...\n"
    registry = registry_of(project, clock, email=text)
    folder, file = project / "handlers", project / "handlers" / "email.py"
    file.unlink()
    with pytest.raises(HandlerBroken):
        registry.resolve("a:one")
    listed_at = folder.stat().st_mtime_ns
    file.write_text(text)
    os.utime(folder, ns=(listed_at, listed_at))  # as on a file system with coarse times

    clock.now += FAILURE_SECONDS

    assert registry.resolve("a:one").reference == "handlers.email:one"


def test_a_keyboard_interrupt_during_an_import_is_raised(project):
    registry = registry_of(project, email=f"{IMPORT}raise KeyboardInterrupt\n@action('a:one')\ndef one(payload): ...\n")

    with pytest.raises(KeyboardInterrupt):
        registry.resolve("a:one")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def other(payload): ...", "its module has no such function: run `python registry_build.py`"),
        ("def one(payload): ...", "it is not declared with @action"),
        ("@action('a:new')\ndef one(payload): ...", 'it is declared as "a:new": run `python registry_build.py`'),
        ("@action('a:one')\ndef one(): ...", "it takes 0 positional parameters"),
        ("@action('a:one')\ndef one(*payloads): ...", "it takes 0 positional parameters"),
        ("@action('a:one')\ndef one(payload, context, more): ...", "it takes 3 positional parameters"),
        ("@action('a:one')\ndef one(payload, *, dry): ...", "no value is passed for its keyword-only parameter dry"),
        ("@action('a:one')\ndef one(payload):\n  yield", "it is a generator"),
        ("@action('a:one')\nasync def one(payload):\n  yield", "it is a generator"),
        (
            "@action('a:one', **{'transactional': True})\nasync def one(payload): ...",
            "transactional=True does not work",
        ),
        ("@action('a:one', **{'retry': [1]})\ndef one(payload): ...", "retry must be a policy"),
        (
            "@action('a:one')\ndef one(payload: Nowhere): ...",
            "NameError: name 'Nowhere' is not defined (imported under",
        ),
        ("@action('a:one')\ndef one(payload: 'list['): ...", "the annotation of payload cannot be used: SyntaxError"),
        ("class C: ...\n@action('a:one')\ndef one(payload: C): ...", "PydanticSchemaGenerationError: Unable to"),
        ("one = action('a:one')(len)", "AttributeError"),
    ],
)
def test_an_unusable_handler_function_is_rejected_with_the_reason(project, text, reason):
    (project / "handlers" / "email.py").write_text(f"{IMPORT}{text}\n")
    registry = Registry(project, RegistryContent(handlers={"a:one": "handlers.email:one"}))

    with pytest.raises(HandlerBroken) as broken:
        registry.resolve("a:one")

    assert reason in str(broken.value)


def test_only_the_annotation_of_the_payload_is_evaluated(project):
    registry = registry_of(
        project,
        email=f"{IMPORT}from typing import TYPE_CHECKING\nfrom pydantic import BaseModel\n"
        "if TYPE_CHECKING:\n  from scheduled_actions import Context\n"
        "class Welcome(BaseModel):\n  to: str\n"
        "@action('a:one')\ndef one(payload: Welcome, context: Context) -> Nowhere: ...\n",
    )

    handler = registry.resolve("a:one")

    assert handler.takes_context
    with pytest.raises(PayloadInvalid, match="to: Field required"):
        handler.payload.validate_text("{}")


def test_annotations_are_resolved_in_the_module_of_the_handler(project):
    registry = registry_of(
        project,
        email=f"{IMPORT}from dataclasses import dataclass\nfrom datetime import date\nfrom typing import TypedDict\n"
        "@dataclass\nclass A:\n  on: date\n"
        "class B(TypedDict):\n  on: date\n"
        "@action('a:one')\ndef one(payload: A): return payload.on.year\n"
        "@action('a:two')\ndef two(payload: B): return payload['on'].year\n",
    )

    for action_type in ("a:one", "a:two"):
        handler = registry.resolve(action_type)
        assert handler.function(handler.payload.validate_text('{"on": "2026-03-01"}')) == 2026


def test_the_annotation_of_a_wrapped_handler_is_resolved_in_its_module(project):
    (project / "handlers" / "wraps.py").write_text(
        "import functools\n"
        "def wrapping(function):\n"
        "  @functools.wraps(function)\n"
        "  def wrapper(*args): return function(*args)\n"
        "  return wrapper\n"
    )
    registry = registry_of(
        project,
        email=f"{IMPORT}from dataclasses import dataclass\nfrom handlers.wraps import wrapping\n"
        "@dataclass\nclass A:\n  x: int\n"
        "@wrapping\n@action('a:one')\ndef one(payload: A): return payload.x\n",
    )

    handler = registry.resolve("a:one")

    assert handler.function(handler.payload.validate_text('{"x": 7}')) == 7


def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@dataclass
class Sum:
    amount: int


@wrapping
@action("a:wrapped")
def wrapped(payload: Sum, context: Context | None = None) -> Decimal: ...


def test_a_wrapped_handler_keeps_its_parameters_and_annotation():
    handler = Registry.of(wrapped).resolve("a:wrapped")

    assert handler.takes_context
    assert handler.payload.validate_text('{"amount": 3}') == Sum(3)


def test_a_broken_module_is_imported_at_most_every_ten_seconds_for_all_its_types(project):
    clock = Clock()
    registry = registry_of(
        project,
        clock,
        email=f"{IMPORT}import sys\nsys.imports = getattr(sys, 'imports', 0) + 1\nraise RuntimeError('not yet')\n"
        "@action('a:one')\ndef one(payload): ...\n@action('a:two')\ndef two(payload): ...\n",
    )
    try:
        for action_type in ("a:one", "a:two", "a:one", "a:two"):
            with pytest.raises(HandlerBroken, match="not yet") as broken:
                registry.resolve(action_type)
            assert broken.value.action_type == action_type
        clock.now += FAILURE_SECONDS - 0.1
        with pytest.raises(HandlerBroken, match="not yet"):
            registry.resolve("a:one")
        assert sys.imports == 1

        fixed = f"{IMPORT}@action('a:one')\ndef one(payload): ...\n@action('a:two')\ndef two(payload): ...\n"
        (project / "handlers" / "email.py").write_text(fixed)
        clock.now += 0.2

        assert registry.resolve("a:one").reference == "handlers.email:one"
        assert registry.resolve("a:two").reference == "handlers.email:two"
    finally:
        del sys.imports


def test_an_unusable_function_is_checked_at_most_every_ten_seconds(project):
    clock = Clock()
    (project / "handlers" / "email.py").write_text(f"{IMPORT}one = None\n")
    registry = Registry(project, RegistryContent(handlers={"a:one": "handlers.email:one"}), monotonic=clock)
    with pytest.raises(HandlerBroken):
        registry.resolve("a:one")
    sys.modules["handlers.email"].one = action("a:one")(lambda payload: payload)

    with pytest.raises(HandlerBroken, match="no such function"):
        registry.resolve("a:one")
    clock.now += FAILURE_SECONDS

    assert registry.resolve("a:one").takes_context is False


def test_many_threads_import_a_module_once_and_get_the_same_result(project):
    counting = "import sys\nsys.imports.append(__name__)\nassert sys.gate.wait(10)\n"
    registry = registry_of(
        project,
        email=f"{IMPORT}{counting}@action('a:one')\ndef one(payload): ...\n",
        broken=f"{IMPORT}{counting}raise OSError\n@action('a:two')\ndef two(payload): ...\n",
    )
    arrived = threading.Semaphore(0)
    answers: dict[str, list[Any]] = {"a:one": [], "a:two": []}

    def resolve(action_type: str) -> None:
        arrived.release()
        try:
            answers[action_type].append(registry.resolve(action_type))
        except HandlerBroken as broken:
            answers[action_type].append(str(broken))

    threads = [threading.Thread(target=resolve, args=[action_type]) for action_type in answers for _ in range(8)]
    sys.imports, sys.gate = [], threading.Event()
    try:
        for thread in threads:
            thread.start()
        assert all(arrived.acquire(timeout=10) for _ in threads)
        sys.gate.set()
        for thread in threads:
            thread.join(10)

        assert sorted(sys.imports) == ["handlers.broken", "handlers.email"]
        assert answers["a:one"] == [registry.resolve("a:one")] * 8
        assert len(answers["a:two"]) == 8
        assert len(set(answers["a:two"])) == 1
    finally:
        del sys.imports, sys.gate


def test_a_slow_import_does_not_block_other_modules(project):
    registry = registry_of(
        project,
        slow=f"{IMPORT}import sys\nsys.begun.set()\nassert sys.go_on.wait(10)\n"
        "@action('a:slow')\ndef f(payload): ...\n",
        quick=f"{IMPORT}@action('a:quick')\ndef f(payload): ...\n",
    )
    sys.begun, sys.go_on = threading.Event(), threading.Event()
    slow = threading.Thread(target=registry.resolve, args=["a:slow"])
    try:
        slow.start()
        assert sys.begun.wait(5)

        started = time.monotonic()
        assert registry.resolve("a:quick").reference == "handlers.quick:f"
        assert time.monotonic() - started < 2
        assert slow.is_alive()
    finally:
        sys.go_on.set()
        slow.join(10)
        del sys.begun, sys.go_on


def test_a_module_that_resolves_its_own_handler_during_its_import_does_not_deadlock(project):
    registry = registry_of(
        project,
        email=f"{IMPORT}import sys\nsys.registry.resolve('a:one')\n@action('a:one')\ndef one(payload): ...\n",
    )
    sys.registry = registry
    started = time.monotonic()
    try:
        with pytest.raises(HandlerBroken, match="has no such function"):
            registry.resolve("a:one")
        assert time.monotonic() - started < 2
    finally:
        del sys.registry


def test_handlers_without_an_init_file_precede_a_package_elsewhere_on_the_path(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "handlers").mkdir()
    (elsewhere / "handlers" / "__init__.py").touch()
    sys.path.insert(1, str(elsewhere))
    registry = registry_of(project, email=f"{IMPORT}@action('a:one')\ndef one(payload): ...\n")

    assert registry.resolve("a:one").reference == "handlers.email:one"


def test_handlers_of_another_project_are_rejected(project, tmp_path_factory):
    registry_of(project, email=f"{IMPORT}@action('a:one')\ndef one(payload): ...\n").resolve("a:one")
    second = tmp_path_factory.mktemp("second")
    (second / "handlers").mkdir()
    text = f"{IMPORT}@action('a:one')\ndef one(payload): ...\n"

    for registry in (
        registry_of(second, email=text),
        registry_of(second, only_here=text.replace("a:one", "a:two"), email=""),
    ):
        with pytest.raises(HandlerBroken, match="another package called handlers was imported first, from"):
            registry.resolve(next(iter(registry.types)))


def test_a_project_can_be_reached_through_a_symbolic_link(project, tmp_path_factory):
    link = tmp_path_factory.mktemp("links") / "project"
    link.symlink_to(project)

    assert registry_of(link, email=f"{IMPORT}@action('a:one')\ndef one(payload): ...\n").resolve("a:one")


def test_a_registry_accepts_only_declared_functions_with_unique_types():
    @action("a:plain")
    def other(payload): ...

    with pytest.raises(InvalidArgument, match="wrapping is not declared with @action"):
        Registry.of(wrapping)
    with pytest.raises(RegistryInvalid, match='"a:plain" already has a handler'):
        Registry.of(plain, other)


def test_a_separate_process_loads_the_handlers_of_its_project(project, tmp_path_factory):
    registry_of(project, email=f"{IMPORT}@action('a:one')\ndef one(payload: dict): return payload['x']\n")
    code = (
        "import sys; from pathlib import Path; from scheduled_actions.registry import Registry;"
        "handler = Registry.load(Path(sys.argv[1])).resolve('a:one');"
        "print(handler.function(handler.payload.validate_text('{\"x\": 42}')))"
    )

    run = subprocess.run(
        [sys.executable, "-c", code, str(project)],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert run.stdout == "42\n"
