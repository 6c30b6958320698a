"""Apply the limit keys that handlers declare to actions that were scheduled without any, for example from SQL."""

import json
from collections.abc import Collection, Sequence
from uuid import UUID

from scheduled_actions.actions.claims import ClaimResult
from scheduled_actions.core import json_text
from scheduled_actions.core.action import Claimed
from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.core.log import log
from scheduled_actions.database.boundary import TEMPORARY_ERRORS, reason_of
from scheduled_actions.database.connection import Connection
from scheduled_actions.database.statements import Statements
from scheduled_actions.registry import Registry, limit_keys

sql = Statements(__file__)


class HandlerLimits:
    """The claim hook of handlers with limits: it moves their actions without limit keys to the queues of their keys.

    It runs before the hooks of other features. For them, such an action is claimed when it is claimed from its queue.

    Args:
        registry: The handlers.
        patterns: The patterns of the settings.
    """

    column = "action_type"

    def __init__(self, registry: Registry, patterns: Collection[str]) -> None:
        self._registry = registry
        self._patterns = patterns
        #: The action types with a key that matches no pattern, each of which is logged once.
        self._unmatched: set[str] = set()

    def after_claim(self, connection: Connection, claimed: list[Claimed]) -> ClaimResult:
        """Return the actions whose handler has no limits, or that have limit keys, as kept; move the others to queues.

        Actions whose limit keys cannot be filled in are refused.

        Args:
            connection: In the claiming transaction.
            claimed: The claimed actions.
        """
        result = ClaimResult([])
        keys_of: dict[UUID, list[str]] = {}
        for one in claimed:
            templates = None if one.limit_keys is not None else self._registry.options(one.action_type).limit
            if templates is None:
                result.kept.append(one)
                continue
            try:
                keys_of[one.id] = keys = self._fill_in(templates, one)
            except InvalidArgument as error:
                result.refused.append((one, str(error)))
            else:
                self._check_known(one.action_type, templates, keys)
        if keys_of:
            given = [{"id": str(action_id), "limit_keys": keys} for action_id, keys in keys_of.items()]
            sql.run(connection, "assign_keys", {"given": json.dumps(given)})
            result.has_queued = True
        return result

    def claim_refused(self, connection: Connection, claimed: Claimed, error: BaseException) -> ClaimResult:  # noqa: ARG002 - the interface of hooks
        """Fail an action whose limit keys cannot be read or stored; raise a temporary error again."""
        if isinstance(error, TEMPORARY_ERRORS):
            raise error
        return ClaimResult([], refused=[(claimed, f"its limit keys cannot be set: {reason_of(error)}")])

    @staticmethod
    def _fill_in(templates: Sequence[str], one: Claimed) -> list[str]:
        payload = json_text.decode(one.payload_text)
        return limit_keys.fill_in(templates, payload, team_id=one.team_id, user_id=one.user_id)

    def _check_known(self, action_type: str, templates: Sequence[str], keys: Sequence[str]) -> None:
        """Log a warning if a key matches no pattern: the action stays queued until there is one."""
        if action_type in self._unmatched or all(limit_keys.pattern_of(key, self._patterns) for key in keys):
            return
        self._unmatched.add(action_type)
        log.warning("limit.unmatched action_type=%s limit=%s", action_type, ",".join(templates))
