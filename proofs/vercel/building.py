"""Run `vercel build` on a copy of this tree, without an account, and unpack the function as Vercel would."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proofs.vercel.tools import ROOT, ProofFailedError, run

if TYPE_CHECKING:
    from pathlib import Path

    from proofs.vercel.tools import Tools

#: Not copied: files that a fresh clone would not contain, including secrets.
_NOT_COPIED = (
    *(".git", ".venv", ".env", ".scheduled_actions", ".vercel", "__pycache__", "*.egg-info", "node_modules", "results"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".import_linter_cache", ".hypothesis"),
)
#: `vercel build` requires a linked project, but does not look up its ids.
_LINK = {"projectId": "prj_of_the_proof", "orgId": "team_of_the_proof", "settings": {"framework": "flask"}}


@dataclass(frozen=True, slots=True)
class Built:
    """A built function."""

    #: Contains all files of the function.
    directory: Path
    #: `.vc-config.json`: entry point, limits, environment.
    config: dict[str, Any]
    #: `config.json` of the output: crons and routes.
    output: dict[str, Any]
    #: The interpreter that runs the function.
    python: Path
    #: Output of the build.
    said: str


def build(tools: Tools, directory: Path) -> Built:
    """Build the function of this tree in `directory`.

    Raises:
        ProofFailedError: The build failed, or did not produce exactly one function.
    """
    tree = directory / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    (tree / ".vercel").mkdir()
    (tree / ".vercel" / "project.json").write_text(json.dumps(_LINK), encoding="utf-8")
    said = run(
        [tools.vercel, "build", "--yes"], what="vercel build failed", cwd=tree, environ=_environment(tools, directory)
    )
    output = tree / ".vercel" / "output"
    functions = sorted((output / "functions").glob("**/*.func"))
    if len(functions) != 1:
        message = f"vercel build produced {[one.name for one in functions]}, expected one function"
        raise ProofFailedError(message)
    config = json.loads((functions[0] / ".vc-config.json").read_text(encoding="utf-8"))
    unpacked = directory / "function"
    _lay_out(functions[0], config.get("filePathMap", {}), tree, unpacked)
    return Built(
        directory=unpacked,
        config=config,
        output=json.loads((output / "config.json").read_text(encoding="utf-8")),
        python=tools.python,
        said=said,
    )


def _environment(tools: Tools, directory: Path) -> dict[str, str]:
    """Return an environment with the tools on PATH and without this machine's virtual environment and settings."""
    tools_path = directory / "bin"
    tools_path.mkdir(parents=True)
    (tools_path / "uv").symlink_to(tools.uv)
    for name in (f"python{tools.python_version}", "python3"):
        (tools_path / name).symlink_to(tools.python)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"VIRTUAL_ENV", "PYTHONPATH", "DATABASE_URL", "CRON_SECRET", "ADMIN_TOKEN"}
        and not name.startswith("SCHEDULED_ACTIONS_")
    }
    own = {
        "PATH": f"{tools_path}{os.pathsep}{os.environ['PATH']}",
        "VERCEL_TELEMETRY_DISABLED": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "XDG_CONFIG_HOME": str(directory / "config"),
        "XDG_DATA_HOME": str(directory / "data"),
    }
    return inherited | own


def _lay_out(function: Path, files: dict[str, str], tree: Path, unpacked: Path) -> None:
    """Copy the function's own files, and those of its file map, to the paths where the function expects them."""
    shutil.copytree(function, unpacked)
    for name, source in files.items():
        place = unpacked / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            shutil.copy2(tree / source, place)
