"""Conditions: data that says when an action may run, read with clear errors and judged without touching the world."""

from __future__ import annotations

from scheduled_actions.conditions.kinds import APPROVAL, PREFIXED_MOST
from scheduled_actions.conditions.model import (
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
from scheduled_actions.conditions.plan import Plan, plan_of, stored_plan
from scheduled_actions.conditions.reading import PUBLIC, read_condition, with_public_reach
from scheduled_actions.conditions.ruling import Progress, Ruled, Ruling, rule

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
