"""The caller of the HTTP API or the dashboard, as far as services depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: How far addresses reach that a token gave. `public`: the public internet, and every named channel of the settings;
#: `team`: the public internet, and the named channels that are open to teams. What application code gives (None)
#: reaches the private networks of the settings as well, unless it belongs to a team.
AddressReach: TypeAlias = Literal["public", "team"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """A token. Application code and SQL have none: services take None for them, and trust them."""

    #: The only team that the token sees; None: all teams.
    team_id: str | None

    @property
    def reach(self) -> AddressReach:
        """How far the addresses reach that it gives."""
        return "public" if self.team_id is None else "team"


def reach_of(requester: Requester | None) -> AddressReach | None:
    """Return how far addresses of a requester reach; None for those of application code."""
    return None if requester is None else requester.reach


def narrower(one: AddressReach | None, other: AddressReach | None) -> AddressReach | None:
    """Return the shorter of two reaches."""
    return "team" if "team" in {one, other} else one or other
