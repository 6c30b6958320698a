"""The budget within which rules, templates and filters that a caller supplied are evaluated.

Steps and bytes decide, so the same input gives the same answer on a busy machine. A reading that may stop in between
catches `BudgetExceeded` and returns what it has, marked as truncated; storing refuses; a stored rule pauses its series.
"""

from __future__ import annotations

from scheduled_actions.core.errors import BudgetExceeded

#: Steps of one evaluation: about half a second of one core, whatever the rule is.
STEPS = 100_000
#: Steps of the smallest part of a budget: enough for a usual rule.
PART_LEAST = STEPS // 250
#: Bytes that one evaluation may produce or hold.
BYTES = 4 * 1024 * 1024


class EvaluationBudget:
    """Counts what one evaluation uses and ends it at its limits.

    One step is one elementary operation of a rule, about 5 µs: a candidate instant, a range compared with it, a node
    of a document. A loop over caller-supplied values spends a step in each turn.

    Args:
        what: What is evaluated, as the error names it: "the recurrence", "the feed".
        steps: How many steps are left at the start.
        size: How many bytes are left at the start.
        within: The budget of the whole, when this is one of its parts: what the part spends, the whole spends too.
    """

    __slots__ = ("_bytes", "_prepared", "_steps", "_within", "bytes_left", "steps_left", "what")

    def __init__(
        self, what: str, *, steps: int = STEPS, size: int = BYTES, within: EvaluationBudget | None = None
    ) -> None:
        self.what = what
        self._steps = self.steps_left = steps
        self._bytes = self.bytes_left = size
        self._within = within
        self._prepared: object = None

    @property
    def is_spent(self) -> bool:
        """Whether a limit has been exceeded; every later use raises again."""
        return self.steps_left < 0 or self.bytes_left < 0

    def part(self, *, of: int) -> EvaluationBudget:
        """Return the budget of the next of `of` parts: an equal share of what is left, and enough for a usual rule."""
        return EvaluationBudget(self.what, steps=max(self.steps_left // of, PART_LEAST), within=self)

    def spend(self, steps: int = 1) -> None:
        """Use some steps.

        Raises:
            BudgetExceeded: There are not as many left.
        """
        self.steps_left -= steps
        if self.steps_left < 0:
            raise BudgetExceeded(self.what, "steps", self._steps)
        if self._within is not None:
            self._within.spend(steps)

    def spend_to_prepare(self, what: object, steps: int) -> None:
        """Use the steps of preparing something that serves until something else is prepared.

        Raises:
            BudgetExceeded: There are not as many left.
        """
        if what != self._prepared:
            self._prepared = what
            self.spend(steps)

    def spend_bytes(self, size: int) -> None:
        """Use some bytes.

        Raises:
            BudgetExceeded: There are not as many left.
        """
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise BudgetExceeded(self.what, "bytes", self._bytes)
        if self._within is not None:
            self._within.spend_bytes(size)
