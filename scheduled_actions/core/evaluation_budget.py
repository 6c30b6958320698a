"""The evaluation budget of caller-supplied rules, templates and filters.

It counts steps and bytes rather than time, so the result does not depend on the load of the machine. Reading
operations catch `BudgetExceeded` and return a truncated result; storing operations reject the input; a stored rule that
exceeds its budget pauses its series.
"""

from scheduled_actions.core.errors import BudgetExceeded

#: Steps of one evaluation: about half a second on one core.
STEPS = 100_000
#: Minimum steps of a part of a budget: enough for a typical rule.
PART_LEAST = STEPS // 250
#: Bytes that one evaluation may produce.
BYTES = 4 * 1024 * 1024


class EvaluationBudget:
    """Counts the steps and bytes of one evaluation, and raises `BudgetExceeded` when a limit is exceeded.

    One step is one elementary operation, about 5 µs: a candidate instant, a comparison with a range, a node of a
    document. A loop over caller-supplied values spends one step per iteration.

    Args:
        what: Name of the evaluation in errors: "the recurrence", "the feed".
        steps: Initial number of steps.
        size: Initial number of bytes.
        within: The budget of which this is a part; steps and bytes spent here are also subtracted from it.
    """

    __slots__ = ("_bytes", "_prepared", "_steps", "_within", "bytes_left", "steps_left", "what")

    def __init__(
        self, what: str, *, steps: int = STEPS, size: int = BYTES, within: "EvaluationBudget | None" = None
    ) -> None:
        self.what = what
        self._steps = self.steps_left = steps
        self._bytes = self.bytes_left = size
        self._within = within
        self._prepared: object = None

    @property
    def is_spent(self) -> bool:
        """Whether the steps or the bytes have been exceeded; spending more of them raises `BudgetExceeded` again."""
        return self.steps_left < 0 or self.bytes_left < 0

    def part(self, *, of: int) -> "EvaluationBudget":
        """Return a budget for one of `of` parts: an equal share of the steps left, at least `PART_LEAST`.

        The number of bytes of a part is limited by `BYTES` and by this budget.
        """
        return EvaluationBudget(self.what, steps=max(self.steps_left // of, PART_LEAST), within=self)

    def spend(self, steps: int = 1) -> None:
        """Subtract steps from this budget and from the budget of which it is a part.

        Raises:
            BudgetExceeded: One of the two has fewer steps left.
        """
        self.steps_left -= steps
        if self.steps_left < 0:
            raise BudgetExceeded(self.what, "steps", self._steps)
        if self._within is not None:
            self._within.spend(steps)

    def spend_to_prepare(self, what: object, steps: int) -> None:
        """Spend steps on preparing a value, unless the previous call prepared an equal value.

        Args:
            what: The value that is prepared; compared with `==`.
            steps: The steps that the preparation takes.

        Raises:
            BudgetExceeded: This budget, or the budget of which it is a part, has fewer steps left.
        """
        if what != self._prepared:
            self._prepared = what
            self.spend(steps)

    def spend_bytes(self, size: int) -> None:
        """Subtract bytes from this budget and from the budget of which it is a part.

        Raises:
            BudgetExceeded: One of the two has fewer bytes left.
        """
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise BudgetExceeded(self.what, "bytes", self._bytes)
        if self._within is not None:
            self._within.spend_bytes(size)
