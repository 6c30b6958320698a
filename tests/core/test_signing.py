from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st
from standardwebhooks.webhooks import Webhook

from scheduled_actions import webhooks
from scheduled_actions.core.errors import (
    InvalidArgument,
    NotConfigured,
    SignatureExpired,
    SignatureHeaderInvalid,
    SignatureHeaderMissing,
    SignatureInvalid,
    SignatureMismatch,
)
from scheduled_actions.core.signing import SIGNATURE_LIMIT, keys_of, sign, verify

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/standard_webhooks/vectors.json").read_text())
BODY = VECTORS["body"].encode()
NOW = VECTORS["timestamp"]
(KEY,) = keys_of(VECTORS["secret"])
OTHER_KEY = bytes(range(24))
OTHER_SECRET = "whsec_" + base64.b64encode(OTHER_KEY).decode()


def signed_headers(**changes):
    """Return the published headers; `signature="…"` changes `webhook-signature`, None omits it."""
    values = {"id": VECTORS["id"], "timestamp": str(NOW), "signature": VECTORS["signature"], **changes}
    return {f"webhook-{name}": value for name, value in values.items() if value is not None}


def test_signing_gives_the_published_signature():
    assert sign([KEY], message_id=VECTORS["id"], timestamp=NOW, body=BODY) == VECTORS["signature"]


@pytest.mark.parametrize("signature", VECTORS["accepted"])
def test_a_published_signature_is_accepted(signature):
    verify(BODY, signed_headers(signature=signature), [KEY], now=NOW)


@pytest.mark.parametrize("signature", VECTORS["refused"])
def test_a_published_forgery_is_refused(signature):
    with pytest.raises(SignatureMismatch, match="the receiver has another secret"):
        verify(BODY, signed_headers(signature=signature), [KEY], now=NOW)


def test_the_official_library_accepts_signatures_of_this_package():
    now = int(time.time())
    body = '{"event":"task:created","name":"Zoë"}'
    signature = sign([OTHER_KEY, KEY], message_id="msg_1", timestamp=now, body=body.encode())
    headers = signed_headers(id="msg_1", timestamp=str(now), signature=signature)

    for secret in (VECTORS["secret"], OTHER_SECRET):
        assert Webhook(secret).verify(body, headers) == json.loads(body)


def test_signatures_of_the_official_library_are_accepted():
    signed_at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    signature = Webhook(VECTORS["secret"]).sign("msg_1", signed_at, '{"name":"Zoë"}')
    headers = signed_headers(id="msg_1", timestamp=str(int(signed_at.timestamp())), signature=signature)

    webhooks.verify('{"name":"Zoë"}'.encode(), headers, VECTORS["secret"], now=signed_at.timestamp())


@given(
    st.binary(max_size=200),
    st.text(min_size=1, max_size=40).filter(lambda text: "." not in text),
    st.integers(0, 10**11),
    st.lists(st.binary(min_size=1, max_size=64), min_size=1, max_size=SIGNATURE_LIMIT),
    st.data(),
)
def test_a_signature_is_valid_with_any_of_its_keys(body, message_id, timestamp, keys, data):
    signature = sign(keys, message_id=message_id, timestamp=timestamp, body=body)
    headers = {
        "Webhook-Id": message_id,
        "WEBHOOK-TIMESTAMP": str(timestamp),
        "webhook-signature": signature,
    }

    verify(body, headers, [data.draw(st.sampled_from(keys))], now=timestamp)


@given(st.sampled_from(["id", "timestamp", "signature"]), st.text(max_size=60))
@example("id", "half a character: \ud800")
@example("signature", "half a character: \ud800")
@example("signature", "v1,caf\xe9")
def test_a_malformed_header_is_refused_without_another_error(name, junk):
    with pytest.raises(SignatureInvalid):
        verify(BODY, signed_headers(**{name: junk + "x"}), [KEY], now=NOW)


@pytest.mark.parametrize("name", ["id", "timestamp", "signature"])
@pytest.mark.parametrize("value", [None, ""])
def test_the_error_names_a_missing_header(name, value):
    with pytest.raises(SignatureHeaderMissing, match=f"no webhook-{name} header"):
        verify(BODY, signed_headers(**{name: value}), [KEY], now=NOW)


@pytest.mark.parametrize(
    "timestamp", ["hello", "-5", "1614265330.0", "1e9", "٣", "NaN", "inf", " 1614265330", "9" * 5000]
)
def test_a_timestamp_that_is_not_a_number_of_seconds_is_refused(timestamp):
    with pytest.raises(SignatureHeaderInvalid, match="webhook-timestamp must be a whole number"):
        verify(BODY, signed_headers(timestamp=timestamp), [KEY], now=NOW)


@pytest.mark.parametrize(("now", "words"), [(NOW + 301, "in the past"), (NOW - 301, "in the future")])
def test_a_timestamp_outside_the_tolerance_is_refused(now, words):
    with pytest.raises(SignatureExpired, match=words):
        verify(BODY, signed_headers(), [KEY], now=now)


@pytest.mark.parametrize("now", [NOW + 300, NOW - 300])
def test_a_timestamp_at_the_limit_of_the_tolerance_is_accepted(now):
    verify(BODY, signed_headers(), [KEY], now=now)


def test_the_tolerance_can_be_reduced():
    with pytest.raises(SignatureExpired, match="the tolerance is 10 seconds"):
        verify(BODY, signed_headers(), [KEY], now=NOW + 11, tolerance_seconds=10)


def test_another_body_id_timestamp_or_key_is_refused():
    for body, headers, key in (
        (BODY + b" ", signed_headers(), KEY),
        (BODY, signed_headers(id="msg_2"), KEY),
        (BODY, signed_headers(timestamp=str(NOW + 1)), KEY),
        (BODY, signed_headers(), OTHER_KEY),
    ):
        with pytest.raises(SignatureMismatch):
            verify(body, headers, [key], now=NOW)


def test_a_dot_in_the_id_cannot_shift_the_boundary_between_id_timestamp_and_body():
    signature = sign([KEY], message_id="msg", timestamp=NOW, body=f"{NOW}.rest".encode())
    headers = signed_headers(id=f"msg.{NOW}", signature=signature)

    with pytest.raises(SignatureHeaderInvalid, match="webhook-id must be an id without a dot"):
        verify(b"rest", headers, [KEY], now=NOW)


@pytest.mark.parametrize("keys", [[], [b""]], ids=["none", "an empty one"])
def test_without_a_key_every_signature_is_refused(keys):
    forged = base64.b64encode(hmac.digest(b"", f"msg_1.{NOW}.".encode(), "sha256")).decode()

    with pytest.raises(SignatureMismatch):
        verify(b"", signed_headers(id="msg_1", signature=f"v1,{forged}"), keys, now=NOW)


@pytest.mark.parametrize("keys", [[], [b""], [KEY, b""]])
def test_signing_without_a_key_is_refused(keys):
    with pytest.raises(InvalidArgument, match="at least one key"):
        sign(keys, message_id="msg_1", timestamp=NOW, body=BODY)


@pytest.mark.parametrize("message_id", ["", "msg.1"])
def test_signing_an_id_with_a_dot_is_refused(message_id):
    with pytest.raises(InvalidArgument, match="a non-empty id without a dot"):
        sign([KEY], message_id=message_id, timestamp=NOW, body=BODY)


def test_only_a_limited_number_of_signatures_is_compared():
    padding = ["v1,AAAA"] * SIGNATURE_LIMIT

    verify(BODY, signed_headers(signature=" ".join([*padding[1:], VECTORS["signature"]])), [KEY], now=NOW)
    with pytest.raises(SignatureMismatch):
        verify(BODY, signed_headers(signature=" ".join([*padding, VECTORS["signature"]])), [KEY], now=NOW)


def test_during_rotation_a_consumer_accepts_the_old_and_the_new_secret():
    both = f"{OTHER_SECRET}, {VECTORS['secret']}"

    webhooks.verify(BODY, signed_headers(), both, now=NOW)


def test_a_consumer_uses_its_own_clock_unless_a_time_is_given():
    with pytest.raises(SignatureExpired):
        webhooks.verify(BODY, signed_headers(), VECTORS["secret"])


@pytest.mark.parametrize(
    "secret",
    [
        "",
        " , ",
        "hunter2",
        "whsec_",
        "whsec_hunter2!",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        VECTORS["secret"].removeprefix("whsec_"),
        VECTORS["secret"] + ",hunter2",
        "whsec_ünïcödé",
    ],
)
def test_the_error_for_an_invalid_secret_does_not_contain_it(secret):
    with pytest.raises(NotConfigured, match="whsec_ followed by the base64 of 24 to 64") as caught:
        webhooks.verify(BODY, signed_headers(), secret, now=NOW)

    assert "hunter2" not in str(caught.value)
