"""The style, the scripts and the icon: a few files, each at an address that names its content."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "static"
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    media_type: str
    #: Changes with the content, so that a browser may keep the file for good.
    version: str
    content: bytes
    compressed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the files by name."""
    return {path.name: _read(path) for path in sorted(_FOLDER.iterdir()) if path.suffix in _KINDS}


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(
        media_type=_KINDS[path.suffix],
        version=hashlib.sha256(content).hexdigest()[:12],
        content=content,
        compressed=gzip.compress(content, mtime=0),
    )
