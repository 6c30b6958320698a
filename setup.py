"""Add the files that `scheduled-actions init` writes to the wheel, which pyproject.toml cannot express.

The files are at the top of this repository, which is itself a project; a second copy would diverge.
`scheduled_actions/local/project_files.txt` lists them, and the wheel contains them in `local/_project/`.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_LIST = Path("scheduled_actions/local/project_files.txt")
_TARGET = Path("scheduled_actions/local/_project")


class BuildWithProject(build_py):
    """Build the package and copy the files of a new project into it."""

    def run(self) -> None:
        """Build the package; an editable installation uses the original files."""
        super().run()
        if not self.editable_mode:
            for source in _sources():
                target = Path(self.build_lib, _TARGET, source)
                target.parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(source), str(target), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:  # noqa: FBT001, FBT002 - the signature of setuptools
        """Return all built files."""
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs + [str(Path(self.build_lib, _TARGET, source)) for source in _sources()]

    def get_source_files(self) -> list[str]:
        """Return all source files, so that a source distribution includes the project files."""
        read: list[str] = super().get_source_files()
        return [*read, str(_LIST), *map(str, _sources())]


def _sources() -> list[Path]:
    patterns = _LIST.read_text(encoding="utf-8").split()
    found = {path for pattern in patterns for path in Path().glob(pattern)}
    return sorted(path for path in found if path.name != "_registry.py")


setup(cmdclass={"build_py": BuildWithProject})
