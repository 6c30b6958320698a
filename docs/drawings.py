"""Draw the import order of the folders from the contract in pyproject.toml: `python -m docs.drawings`."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
DRAWING = ROOT / "docs" / "images" / "import-order.svg"

_PACKAGE = ROOT / "scheduled_actions"
_WIDTH, _ROW, _GAP, _TOP, _MARGIN = 860, 30, 6, 52, 20
_BOX_LEFT, _BOX_WIDTH = 64, 132
_RULE = "A folder imports only from the folders below it. Adjacent boxes do not import each other."
# The drawing has its own background, so that it is legible on light and dark pages.
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2328} .card{fill:#fff;stroke:#8c959f} .box{fill:#0b5cad} "
    ".name{fill:#fff;font-weight:600} .arrow{stroke:#59636e;stroke-width:2;fill:none} .head{fill:#59636e}"
)


def layers() -> list[list[str]]:
    """Return the folders of each layer of the `layers` contract, highest layer first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    return [layer.replace("|", " ").split() for layer in contract["layers"]]


def purpose(folder: str) -> str:
    """Return the purpose of a folder: the first line of its docstring without the folder's name."""
    file = _PACKAGE / f"{folder}.py"
    if not file.exists():
        file = _PACKAGE / folder / "__init__.py"
    first = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    return first.partition(": ")[2].rstrip(".").replace("`", "")


def import_order() -> str:
    """Return an SVG document with a row per folder, highest layer at the top."""
    rows, y = [], _TOP
    for layer in layers():
        for folder in layer:
            rows.append(_row(folder, y))
            y += _ROW
        y += _GAP
    height = y + _MARGIN
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            f"<title>The folders of {_PACKAGE.name} in import order</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
            f'<text x="{_MARGIN}" y="30">{_RULE}</text>',
            f'<path class="arrow" d="M36 {_TOP} V{height - _MARGIN - 12}"/>',
            f'<path class="head" d="M30 {height - _MARGIN - 14} h12 l-6 12 z"/>',
            *rows,
            "</svg>\n",
        ]
    )


def _row(folder: str, y: int) -> str:
    middle = y + _ROW // 2 + 5
    return (
        f'<rect class="box" x="{_BOX_LEFT}" y="{y}" width="{_BOX_WIDTH}" height="{_ROW - 1}" rx="4"/>'
        f'<text class="name" x="{_BOX_LEFT + _BOX_WIDTH // 2}" y="{middle}" text-anchor="middle">{folder}</text>'
        f'<text x="{_BOX_LEFT + _BOX_WIDTH + 14}" y="{middle}">{escape(purpose(folder))}</text>'
    )


if __name__ == "__main__":
    DRAWING.write_text(import_order(), encoding="utf-8")
