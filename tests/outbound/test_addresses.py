from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduled_actions.outbound.rules.addresses import LOOPBACK, may_reach, networks_of

VECTORS = Path(__file__).parents[1] / "vectors/ssrf"
BLOCKED = json.loads((VECTORS / "blocked.json").read_text(encoding="utf-8"))["addresses"]
ALLOWED = json.loads((VECTORS / "allowed.json").read_text(encoding="utf-8"))["addresses"]


@pytest.mark.parametrize(("address", "kind"), BLOCKED)
def test_what_only_this_machine_can_reach_is_not_reached(address, kind):
    assert not may_reach(address), kind


@pytest.mark.parametrize("address", ALLOWED)
def test_the_public_internet_is_reached(address):
    assert may_reach(address)


@pytest.mark.parametrize("junk", ["", "example.org", "127.1", "2130706433", "1.2.3.4.5", "::g"])
def test_what_is_no_address_is_not_reached(junk):
    assert not may_reach(junk)
    assert not may_reach(junk, also=LOOPBACK)


def test_a_network_that_is_allowed_is_reached_and_its_neighbours_are_not():
    allowed = networks_of(["10.1.0.0/16", "fd00:1::/32"])

    assert may_reach("10.1.255.255", also=allowed)
    assert may_reach("fd00:1::5", also=allowed)
    assert not may_reach("10.2.0.0", also=allowed)
    assert not may_reach("fd00:2::5", also=allowed)
    # The same machine by another way is not what was allowed.
    assert not may_reach("::ffff:10.1.0.1", also=allowed)


@given(st.ip_addresses())
def test_nothing_is_reached_that_python_itself_holds_for_local(address):
    assert not may_reach(str(address)) or (ip_address(str(address)).is_global and not address.is_multicast)
