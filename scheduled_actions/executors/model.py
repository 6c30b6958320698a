"""Values of executors."""

from typing import NamedTuple
from uuid import UUID


class Ticket(NamedTuple):
    """The right to take over one claimed action."""

    #: The action.
    id: UUID
    #: The claim token. A ticket is valid as long as the action is claimed with this token.
    token: UUID
    action_type: str
    #: None: no team.
    team_id: str | None
