from __future__ import annotations

import pytest

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.webhooks.rules.headers import check


def test_names_are_kept_in_lower_case_and_values_as_they_are():
    assert check({"X-Tenant": "Blue 7", "Authorization": "Bearer aB-c"}) == {
        "x-tenant": "Blue 7",
        "authorization": "Bearer aB-c",
    }
    assert check({}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Content-Type", "Transfer-Encoding", "Connection", "webhook-id", "Webhook-Signature",
        "Proxy-Authorization", "X-Forwarded-For", "Cookie", "User-Agent", "TE", "Upgrade", "Sec-Anything",
    ],
)  # fmt: skip
def test_headers_that_frame_or_sign_a_message_are_ours(name):
    with pytest.raises(InvalidArgument, match="one that may be set"):
        check({name: "x"})


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "ä", "x" * 101, 5])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(InvalidArgument, match="the name of a header"):
        check({name: "x"})


@pytest.mark.parametrize("value", ["", " x", "x ", "a\r\nb", "a\nb", "a\0b", "ä", "x" * 1025, 5, None])
def test_a_value_that_could_end_the_header_is_refused_and_not_shown(value):
    with pytest.raises(InvalidArgument, match="headers: 'x-one' is not given a value") as caught:
        check({"x-one": value})

    assert "a\n" not in str(caught.value)


def test_the_same_name_twice_and_too_many_are_refused():
    with pytest.raises(InvalidArgument, match="upper and lower case are one"):
        check({"X-One": "1", "x-one": "2"})
    with pytest.raises(InvalidArgument, match="at most 20"):
        check({f"x-{n}": "1" for n in range(21)})
    with pytest.raises(InvalidArgument):
        check(["x-one"])
