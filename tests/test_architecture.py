"""The code base has the import order and folders that docs/explanation/architecture.md describes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "scheduled_actions"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]

#: Maximum number of entries in the package's folder; each planned folder that exists adds one.
MAX_ENTRIES = 23
PLANNED_FOLDERS = {"limits", "executors", "reports", "scripts", "integrations"}
#: The only files in the package's folder.
TOP_LEVEL_FILES = {"__init__.py", "py.typed", "runtime.py", "wsgi.py"}
#: Maximum number of modules in one folder, `__init__.py` included.
MAX_MODULES = 20
#: Folders of `tests/` without a folder of the package: whole processes, the demo, test data.
SPECIAL_TESTS = {"browser", "docs", "end_to_end", "examples", "faults", "handlers", "malice", "vectors"}

Imports = dict[str, set[str]]


def layers() -> list[set[str]]:
    """Return the folders of each layer of the `layers` contract, lowest layer first."""
    [contract] = [one for one in CONTRACTS if one["type"] == "layers"]
    return [set(layer.replace("|", " ").split()) for layer in reversed(contract["layers"])]


def imports_of(package: Path) -> Imports:
    """Map each module of a package to the modules of the package that it imports.

    Imports for type checkers and imports inside functions are included. A name imported from a folder counts as an
    import of the folder's `__init__`, unless the name is a module.
    """
    modules = dict(_modules(package))
    return {name: set(_imported(name, file, modules)) for name, file in modules.items()}


def _modules(package: Path) -> Iterator[tuple[str, Path]]:
    for file in package.rglob("*.py"):
        parts = file.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def _imported(importer: str, file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{importer} imports by a relative name"
            names = [full if (full := f"{node.module}.{one.name}") in modules else node.module for one in node.names]
        else:
            continue
        yield from (name for name in names if name in modules and name != importer)


def cycles(imports: Imports) -> list[set[str]]:
    """Return the groups of modules that import each other, directly or through others.

    Source: Tarjan, Depth-first search and linear graph algorithms (1972).
    """
    found: list[set[str]] = []
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        entered = lowest[module] = len(lowest)
        place = len(path)
        path.append(module)
        for other in imports[module]:
            if other not in lowest:
                visit(other)
            lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == entered:
            group = path[place:]
            del path[place:]
            # Modules of a completed group must not lower other modules.
            lowest.update(dict.fromkeys(group, len(imports)))
            if len(group) > 1:
                found.append(set(group))

    for module in imports:
        if module not in lowest:
            visit(module)
    return found


def upward(imports: Imports, order: list[set[str]]) -> list[str]:
    """Return the imports from a folder to a higher one, or to another folder of the same layer.

    The package's own `__init__` counts as part of the highest folder that it imports.
    """
    heights = {folder: height for height, layer in enumerate(order) for folder in layer}
    [root] = {module.partition(".")[0] for module in imports}
    heights[""] = max(heights[_folder(module)] for module in imports[root])

    def is_upward(importer: str, imported: str) -> bool:
        above, below = _folder(importer), _folder(imported)
        return importer != root and above != below and heights[above] <= heights[below]

    return sorted(f"{one} -> {other}" for one, others in imports.items() for other in others if is_upward(one, other))


def _folder(module: str) -> str:
    _, _, inner = module.partition(".")
    return inner.partition(".")[0]


def test_there_is_no_import_cycle():
    assert [sorted(group) for group in cycles(imports_of(PACKAGE))] == []


def test_no_folder_imports_a_higher_folder():
    assert upward(imports_of(PACKAGE), layers()) == []


IMPORTING = {
    "at the top": "from package.{} import name",
    "as a whole": "import package.{}",
    "as a module of its folder": "from package import {}",
    "for type checkers": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.{} import Name",
    "in a function": "def function():\n    from package.{} import name",
}


@pytest.mark.parametrize("importing", IMPORTING.values(), ids=IMPORTING)
def test_cycles_and_upward_imports_are_found_in_every_form_of_import(tmp_path, importing):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package.low import thing")
    for name, imported in {"low": "middle", "middle": "high", "high": "low"}.items():
        (package / f"{name}.py").write_text(importing.format(imported))

    imports = imports_of(package)

    assert cycles(imports) == [{"package.low", "package.middle", "package.high"}]
    assert upward(imports, [{"low"}, {"middle"}, {"high"}]) == [
        "package.low -> package.middle",
        "package.middle -> package.high",
    ]


def test_only_folders_above_everything_that_the_package_root_imports_may_import_the_root(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package.middle import thing")
    (package / "middle.py").touch()
    for name in ("low", "high"):
        (package / f"{name}.py").write_text("from package import thing")

    assert upward(imports_of(package), [{"low"}, {"middle"}, {"high"}]) == ["package.low -> package"]


def test_the_package_lists_few_folders_and_no_loose_modules():
    # A folder removed since may still contain compiled files.
    entries = {file.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*") if file.is_file() and _is_source(file)}

    assert len(entries) <= MAX_ENTRIES + len(PLANNED_FOLDERS & entries)
    assert {name for name in entries if (PACKAGE / name).is_file()} <= TOP_LEVEL_FILES


def _is_source(file):
    return not any(part == "__pycache__" or part.startswith(".") for part in file.relative_to(PACKAGE).parts)


def test_no_folder_holds_more_than_twenty_modules():
    counts = Counter(file.parent for file in PACKAGE.rglob("*.py"))

    assert {str(folder): count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_the_contracts_name_no_module_inside_a_folder():
    named = {name for layer in layers() for name in layer}
    for contract in CONTRACTS:
        texts = [text for value in contract.values() if isinstance(value, list) for text in value]
        dotted = [name for text in texts for name in re.findall(rf"\b{PACKAGE.name}\.([\w.*]+)", text)]
        # A name with a wildcard applies to all folders.
        named |= {name for name in dotted if "*" not in name}

    assert {name for name in named if "." in name} == set()
    assert {name for name in named if not ((PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file())} == set()


def test_the_folders_of_tests_mirror_those_of_the_package():
    tests = ROOT / "tests"
    # A folder of an earlier checkout may remain, with compiled files only.
    folders = {file.relative_to(tests).parent for file in tests.rglob("*.py")} - {Path()}
    mirrored = {folder for folder in folders if folder.parts[0] not in SPECIAL_TESTS}

    assert {str(folder) for folder in mirrored if not (PACKAGE / folder).is_dir()} == set()


def test_each_folder_of_the_package_has_tests():
    features = {file.relative_to(PACKAGE).parts[0] for file in PACKAGE.rglob("*/*.py")}

    assert {folder for folder in features if not [*(ROOT / "tests" / folder).rglob("test_*.py")]} == set()
