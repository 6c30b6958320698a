"""Iterators cannot become JSON: they are refused and never read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument


@dataclass
class Holder:
    value: Any


@dataclass(slots=True)
class Slotted:
    value: Any


class Model(BaseModel):
    value: Any


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda iterator: iterator,
        lambda iterator: [iterator],
        lambda iterator: {"deep": ({"er": iterator},)},
        lambda iterator: {iterator},
        Holder,
        Slotted,
        lambda iterator: Holder([Holder(iterator)]),
        lambda iterator: Model(value=[iterator]),
    ],
)
def test_an_iterator_is_refused_at_any_depth(wrapped):
    with pytest.raises(InvalidArgument, match="an iterator, which may be infinite"):
        json_text.encode("result", wrapped(itertools.count()), limit=1000)


def test_finite_collections_and_objects_are_accepted():
    value = [Holder(1), Model(value=[2]), frozenset({3})]

    assert json_text.encode("result", value, limit=1000) == '[{"value":1},{"value":[2]},[3]]'
