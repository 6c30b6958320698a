"""A value without an end is refused where it is to become JSON, and never read."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from scheduled_actions.core import json_text
from scheduled_actions.core.errors import InvalidArgument


@dataclass
class Held:
    value: Any


@dataclass(slots=True)
class Slotted:
    value: Any


class Model(BaseModel):
    value: Any


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda endless: endless,
        lambda endless: [endless],
        lambda endless: {"deep": ({"er": endless},)},
        lambda endless: {endless},
        Held,
        Slotted,
        lambda endless: Held([Held(endless)]),
        lambda endless: Model(value=[endless]),
    ],
)
def test_an_iterator_is_refused_wherever_it_is(wrapped):
    with pytest.raises(InvalidArgument, match="an iterator, which may be infinite"):
        json_text.encode("result", wrapped(itertools.count()), limit=1000)


def test_collections_and_objects_with_an_end_are_taken():
    value = [Held(1), Model(value=[2]), frozenset({3})]

    assert json_text.encode("result", value, limit=1000) == '[{"value":1},{"value":[2]},[3]]'
