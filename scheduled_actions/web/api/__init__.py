"""What answers over HTTP."""

from __future__ import annotations

from scheduled_actions.web.blueprint import blueprint

__all__ = ["blueprint"]
