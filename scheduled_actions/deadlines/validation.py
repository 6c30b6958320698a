"""Validate new deadlines and changed ones: recipients, action types, payloads and conditions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from scheduled_actions.actions.validation import ActionValidator
from scheduled_actions.core import json_text
from scheduled_actions.core.errors import ActionTypeForbidden, InvalidArgument
from scheduled_actions.core.requester import AddressReach, Requester, reach_of
from scheduled_actions.deadlines.model import Stage
from scheduled_actions.deadlines.rules.common import CommonArguments
from scheduled_actions.deadlines.rules.definition import ARGUMENT_OF, NewDeadline, new_deadline
from scheduled_actions.notifications.recipients import Recipients


@dataclass(frozen=True, slots=True)
class DeadlineValidator:
    """Validates the arguments of the deadlines of one project.

    Args:
        actions: Validates the types and payloads of auto-actions, and conditions.
        recipients: Validates addresses and roles.
    """

    actions: ActionValidator
    recipients: Recipients

    def validate(
        self,
        given: Mapping[str, Any],
        requester: Requester | None,
        common: CommonArguments | None = None,
        *,
        reach: AddressReach | None = None,
    ) -> NewDeadline:
        """Return the validated arguments of `Deadlines.set`.

        Args:
            given: The arguments.
            requester: The token of an HTTP request; None: application code.
            common: The arguments of earlier deadlines in the same call; these are added.
            reach: Which addresses the notices may use; None: those of the requester.

        Raises:
            RequestError: As for `Deadlines.set`.
        """
        new = new_deadline(given, common=common)
        if (reach := reach or reach_of(requester)) is not None:
            new = replace(new, reach=reach)
        return self.check(new, requester, common=common)

    def check(
        self,
        new: NewDeadline,
        requester: Requester | None,
        *,
        given: Collection[str] | None = None,
        common: CommonArguments | None = None,
    ) -> NewDeadline:
        """Validate recipients, action types, payloads and conditions; return the deadline with normalised payloads.

        Args:
            new: The arguments of the deadline.
            requester: The token of an HTTP request; None: application code.
            given: The names of the arguments that the requester gave; None: all. The others come from the stored row.
            common: The arguments of earlier deadlines in the same call, which have the same requester and `given`;
                those of this deadline are added.

        Raises:
            RequestError: A recipient, a payload or a condition is invalid, or a type has no handler or is not open to
                the requester.
        """
        names = ("recipients", *ARGUMENT_OF.values())
        origins = {name: requester if given is None or name in given else None for name in names}
        common = common or CommonArguments()
        scope = (id(new.stages), new.team_id, new.reach)
        _, stages = common.validated.get(scope, (None, None))
        listed = [("recipients", new.recipients, origins["recipients"])]
        if stages is None:
            stages = tuple(
                self._validated_stage(one, new, origins.get(ARGUMENT_OF.get(one.kind, ""))) for one in new.stages
            )
            for one in stages:
                listed += [(f"{one.key}.to", one.to, origins[ARGUMENT_OF[one.kind]])] if one.to else []
                listed += [(f"{one.key}.assign", one.assign, origins[ARGUMENT_OF[one.kind]])] if one.assign else []
        for name, to, origin in listed:
            reach = new.reach if given is None else reach_of(origin)
            key = f"{new.team_id is None} {reach} {to!r}"
            if key not in common.recipients:
                self.recipients.check(to, name=name, team_id=new.team_id, reach=reach)
                common.recipients.add(key)
        common.validated[scope] = new.stages, stages
        return replace(new, stages=stages)

    def _validated_stage(self, stage: Stage, new: NewDeadline, requester: Requester | None) -> Stage:
        return self._with_condition(self._with_payload(stage, requester), new, requester)

    def _with_payload(self, stage: Stage, requester: Requester | None) -> Stage:
        if stage.kind != "action":
            self.actions.payloads.handler(stage.action_type, requester=None)
            return stage
        try:
            _, text = self.actions.payloads.prepare(stage.action_type, stage.payload, requester=requester)
        except ActionTypeForbidden as error:
            raise error.inside("auto_actions") from None
        return replace(stage, payload=json_text.decode(text))

    def _with_condition(self, stage: Stage, new: NewDeadline, requester: Requester | None) -> Stage:
        if stage.condition is None:
            return stage
        try:
            columns = self.actions.dependencies(
                {"condition": stage.condition}, requester=requester, team_id=new.team_id
            )
        except InvalidArgument as error:
            number = [one.key for one in new.stages if one.kind == stage.kind].index(stage.key)
            raise error.renamed(f"{ARGUMENT_OF[stage.kind]}[{number}].{error.name}") from None
        return replace(stage, condition=json_text.decode(columns["condition"]))  # type: ignore[arg-type] # an object
