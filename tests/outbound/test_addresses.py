from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from scheduled_actions.outbound.reach import LOOPBACK, may_reach, parse_networks

VECTORS = Path(__file__).parents[1] / "vectors/ssrf"
BLOCKED = json.loads((VECTORS / "blocked.json").read_text(encoding="utf-8"))["addresses"]
ALLOWED = json.loads((VECTORS / "allowed.json").read_text(encoding="utf-8"))["addresses"]


@pytest.mark.parametrize(("address", "kind"), BLOCKED)
def test_private_and_reserved_addresses_are_forbidden(address, kind):
    assert not may_reach(address), kind


@pytest.mark.parametrize("address", ALLOWED)
def test_public_addresses_are_allowed(address):
    assert may_reach(address)


@pytest.mark.parametrize("junk", ["", "example.org", "127.1", "2130706433", "1.2.3.4.5", "::g"])
def test_an_invalid_address_is_forbidden(junk):
    assert not may_reach(junk)
    assert not may_reach(junk, also=LOOPBACK)


def test_an_allowed_network_does_not_include_its_neighbors():
    allowed = parse_networks(["10.1.0.0/16", "fd00:1::/32"])

    assert may_reach("10.1.255.255", also=allowed)
    assert may_reach("fd00:1::5", also=allowed)
    assert not may_reach("10.2.0.0", also=allowed)
    assert not may_reach("fd00:2::5", also=allowed)
    # The same machine under another address is not allowed.
    assert not may_reach("::ffff:10.1.0.1", also=allowed)


@given(st.ip_addresses())
def test_addresses_that_python_considers_private_are_forbidden(address):
    assert not may_reach(str(address)) or (ip_address(str(address)).is_global and not address.is_multicast)
