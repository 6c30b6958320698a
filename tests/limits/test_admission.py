"""Admission of queued actions: as many as every key allows, in the given order."""

from __future__ import annotations

from uuid import UUID

import pytest

from scheduled_actions.limits.rules.admission import KeyId, QueuedAction, admit

A, B = KeyId("", "a"), KeyId("", "b")


def queued(number, *keys, **options):
    return QueuedAction(UUID(int=number), keys, **options)


@pytest.mark.parametrize(
    ("rooms", "wanted", "admitted"),
    [
        ({A: 2, B: 9}, 9, [1, 2]),
        ({A: 9, B: 1}, 9, [1, 2, 4]),
        ({A: 9, B: 9}, 3, [1, 2, 3]),
        ({A: 9}, 9, [1, 4]),
        ({A: 0, B: 9}, 9, []),
        ({}, 9, []),
    ],
)
def test_an_action_is_admitted_if_each_of_its_keys_has_room_left(rooms, wanted, admitted):
    candidates = [queued(1, A), queued(2, A, B), queued(3, A, B), queued(4, A)]

    assert [one.id.int for one in admit(candidates, rooms, wanted=wanted)] == admitted
    assert admit(candidates, rooms, wanted=0) == []


def test_only_the_first_action_of_a_lock_group_is_admitted():
    group, other = ("", "g"), ("red", "g")
    candidates = [queued(1, A, lock_group=group), queued(2, A, lock_group=group), queued(3, A, lock_group=other)]

    assert [one.id.int for one in admit(candidates, {A: 9}, wanted=9)] == [1, 3]


def test_an_action_without_room_in_one_key_takes_none_in_its_others():
    candidates = [queued(1, A, B), queued(2, A)]

    assert [one.id.int for one in admit(candidates, {A: 1, B: 0}, wanted=9)] == [2]
