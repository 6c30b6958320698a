"""The stages of a deadline that is there, as one would ask for them again."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from scheduled_actions.deadlines.model import Stage

#: The kinds of stages that somebody asked for; the others a deadline has by itself.
OF_PEOPLE = ("reminder", "escalation", "action")


@dataclass(frozen=True, slots=True)
class Asked:
    """Stages as `set_deadline` takes them."""

    reminders: list[dict[str, Any]] = field(default_factory=list)
    levels: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)
    #: How often the ladder is climbed, and its rule from round to round; empty where once.
    rounds: dict[str, Any] = field(default_factory=dict)

    def ladder(self, *, beside: Sequence[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - a list of levels, or a ladder
        """Return the escalation with further levels, each under a number that is free."""
        taken = {one["name"] for one in self.levels}
        free = (str(number) for number in count(1) if str(number) not in taken)
        levels = [*self.levels, *({**one, "name": next(free)} for one in beside)]
        return {"levels": levels, **self.rounds} if self.rounds and levels else levels


def as_asked(stages: Iterable[Stage]) -> Asked:
    """Return stages as one asks for them: under the same names, so that they are the same."""
    asked = Asked()
    for stage in stages:
        said = {"offset": stage.offset, "name": stage.key.partition(":")[2]}
        said |= _said(stage, "severity", "message", "to")
        match stage.kind:
            case "reminder":
                asked.reminders.append(said | _said(stage, "repeat", "times"))
            case "escalation":
                asked.levels.append(said | _said(stage, "assign") | {"while": stage.holds_while})
                if stage.repeat is not None:
                    asked.rounds.update(rounds=stage.times, every=stage.repeat)
            case "action":
                work = {"action_type": stage.action_type, "payload": stage.payload or {}}
                asked.actions.append(said | work | dict(stage.options or {}))
            case _:
                pass
    return asked


def _said(stage: Stage, *names: str) -> dict[str, Any]:
    """Return what a stage says of these, as JSON has it."""
    values = {name: getattr(stage, name) for name in names}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if value is not None
    }
