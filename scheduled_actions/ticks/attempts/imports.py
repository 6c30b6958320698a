"""Which actions wait for the import of their handler's module, so that it takes one thread and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scheduled_actions.registry import Registry
    from scheduled_actions.ticks.attempts.attempt import Attempt
    from scheduled_actions.ticks.rules.plan import Candidate


def one_per_import(
    registry: Registry,
    candidates: Sequence[Candidate],
    in_flight: Iterable[Attempt],
    has_room: Callable[[int], bool] | None,
) -> Callable[[int], bool] | None:
    """Return what says, position by position, whether a candidate may start: of each module to import, one at a time.

    Args:
        registry: Knows what is imported.
        candidates: What is ready.
        in_flight: What has been started and has not ended.
        has_room: Says so for another reason, and counts those that may; None: all may.
    """
    awaited = {
        name: module for name in {one.action_type for one in candidates} if (module := registry.awaits_import(name))
    }
    if not awaited:
        return has_room
    importing = {awaited.get(one.claimed.action_type) for one in in_flight}

    def may_start(position: int) -> bool:
        module = awaited.get(candidates[position].action_type)
        if module is not None and module in importing:
            return False
        if has_room is not None and not has_room(position):
            return False
        importing.add(module)
        return True

    return may_start


def types_held(registry: Registry, in_flight: Iterable[Attempt]) -> frozenset[str]:
    """Return the types whose actions wait for a module that is being imported: claims leave them where they are."""
    modules = {registry.awaits_import(one.claimed.action_type) for one in in_flight if one.imported_by is not None}
    if not modules:
        return frozenset()
    return frozenset(name for name in registry.types if registry.awaits_import(name) in modules - {None})
