"""The one thing pyproject.toml cannot say: what `scheduled-actions init` writes goes into the wheel.

The files stand at the top of this repository, where they are the project it deploys; a second copy in the tree would
grow apart. `scheduled_actions/local/project_files.txt` lists them, and the wheel holds them below `_project/`.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_LIST = Path("scheduled_actions/local/project_files.txt")
_TARGET = Path("scheduled_actions/local/_project")


class BuildWithProject(build_py):
    """Builds the package, and beside it what a new project begins with."""

    def run(self) -> None:
        """Build; an editable installation finds the files where they stand."""
        super().run()
        if not self.editable_mode:
            for source in _sources():
                target = Path(self.build_lib, _TARGET, source)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(source), str(target), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:  # noqa: FBT001, FBT002 - the signature of setuptools
        """Return every file that is built."""
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs + [str(Path(self.build_lib, _TARGET, source)) for source in _sources()]

    def get_source_files(self) -> list[str]:
        """Return what is read, so that a source distribution holds it, too."""
        read: list[str] = super().get_source_files()
        return [*read, str(_LIST), *map(str, _sources())]


def _sources() -> list[Path]:
    patterns = _LIST.read_text(encoding="utf-8").split()
    found = {path for pattern in patterns for path in Path().glob(pattern)}
    return sorted(path for path in found if path.name != "_registry.py")


setup(cmdclass={"build_py": BuildWithProject})
