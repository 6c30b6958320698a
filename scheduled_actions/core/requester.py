"""The caller of the HTTP API or the dashboard, in the form that services receive."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: Which addresses a caller may use. `public`: the public internet, and all channels of the settings; `team`: the public
#: internet, and the channels that are open to teams. Application code without a team (None) may also use the private
#: networks of the settings.
AddressReach: TypeAlias = Literal["public", "team"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The holder of a token. None in place of a requester stands for application code and SQL, which are trusted."""

    #: The only team that the token may access; None: all teams.
    team_id: str | None

    @property
    def reach(self) -> AddressReach:
        """Which addresses the holder of the token may use."""
        return "public" if self.team_id is None else "team"


def reach_of(requester: Requester | None) -> AddressReach | None:
    """Return which addresses a requester may use; None for application code, which has no requester."""
    return None if requester is None else requester.reach


def narrower(one: AddressReach | None, other: AddressReach | None) -> AddressReach | None:
    """Return the more restrictive of two reaches; None, for application code, is the least restrictive."""
    return "team" if "team" in {one, other} else one or other
