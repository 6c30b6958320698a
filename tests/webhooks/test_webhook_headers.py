from __future__ import annotations

import pytest

from scheduled_actions.core.errors import InvalidArgument
from scheduled_actions.webhooks.endpoints.checks import check_headers


def test_names_are_stored_in_lower_case_and_values_unchanged():
    assert check_headers({"X-Tenant": "Blue 7", "Authorization": "Bearer aB-c"}) == {
        "x-tenant": "Blue 7",
        "authorization": "Bearer aB-c",
    }
    assert check_headers({}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "Host", "content-length", "Content-Type", "Transfer-Encoding", "Connection", "webhook-id", "Webhook-Signature",
        "Proxy-Authorization", "X-Forwarded-For", "Cookie", "User-Agent", "TE", "Upgrade", "Sec-Anything",
    ],
)  # fmt: skip
def test_headers_that_frame_or_sign_a_message_are_rejected(name):
    with pytest.raises(InvalidArgument, match="the header is reserved"):
        check_headers({name: "x"})


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "ä", "x" * 101, 5])
def test_an_invalid_header_name_is_rejected(name):
    with pytest.raises(InvalidArgument, match="a valid header name"):
        check_headers({name: "x"})


@pytest.mark.parametrize("value", ["", " x", "x ", "a\r\nb", "a\nb", "a\0b", "ä", "x" * 1025, 5, None])
def test_a_value_with_control_characters_is_rejected_and_not_shown(value):
    with pytest.raises(InvalidArgument, match='headers has an invalid value for "x-one"') as caught:
        check_headers({"x-one": value})

    assert "a\n" not in str(caught.value)


def test_duplicate_and_too_many_headers_are_rejected():
    with pytest.raises(InvalidArgument, match="header names are case-insensitive"):
        check_headers({"X-One": "1", "x-one": "2"})
    with pytest.raises(InvalidArgument, match="the limit is 20"):
        check_headers({f"x-{n}": "1" for n in range(21)})
    with pytest.raises(InvalidArgument):
        check_headers(["x-one"])
