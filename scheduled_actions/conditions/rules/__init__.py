"""Conditions: data that says when an action may run, read with clear errors and judged without touching the world."""

from __future__ import annotations

from scheduled_actions.conditions.rules.evaluation import Progress, Ruled, Ruling, rule
from scheduled_actions.conditions.rules.kinds import APPROVAL, PREFIXED_MOST
from scheduled_actions.conditions.rules.model import (
    BUDGETED,
    PREFIX_MARK,
    ActionState,
    Checked,
    Condition,
    DeadlineState,
    Fact,
    FactKey,
    Known,
    Needs,
    Outside,
    Truth,
    Verdict,
)
from scheduled_actions.conditions.rules.parsing import PUBLIC, read_condition, with_public_reach
from scheduled_actions.conditions.rules.plan import Plan, plan_of, stored_plan

__all__ = [
    "APPROVAL",
    "BUDGETED",
    "PREFIXED_MOST",
    "PREFIX_MARK",
    "PUBLIC",
    "ActionState",
    "Checked",
    "Condition",
    "DeadlineState",
    "Fact",
    "FactKey",
    "Known",
    "Needs",
    "Outside",
    "Plan",
    "Progress",
    "Ruled",
    "Ruling",
    "Truth",
    "Verdict",
    "plan_of",
    "read_condition",
    "rule",
    "stored_plan",
    "with_public_reach",
]
