"""Hostile values: unexpected values, values that not every part can store, and values that take much time to process.

Each list is plain JSON in Python (`VALUES` is all of them); `RAW` is JSON text that Python's own writer does not
produce. Every new defect adds its value here.
"""

from __future__ import annotations

import json
import math
from typing import Any


def nested(depth: int, *, kind: str = "list") -> Any:
    """Return a list, or an object, nested to a depth."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


def all_of(depth: int) -> Any:
    """Return a condition that nests other conditions."""
    value: Any = {"kind": "deadline_passed", "at": "2030-01-01T00:00:00Z"}
    for number in range(depth):
        value = {"all": [value]} if number % 2 else {"not": value}
    return value


def follow_up(depth: int, **changes: Any) -> Any:
    """Return an action with nested follow-ups."""
    value: dict[str, Any] = {"action_type": "test:run", "payload": {}, **changes}
    for _ in range(depth):
        value = {"action_type": "test:run", "payload": {}, "on_success": value}
    return value


#: Each kind of JSON value, with its edge cases.
KINDS: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, "", " ", "x", [], {}, [None], [[]], [{}], {"": None}, {"a": {}}, [1, "x", None],
    "0", "1", "-1", "1.5", "true", "null", "[]", "{}", {"x": 1}, ["x"], [True], [0.5],
]  # fmt: skip

NUMBERS: list[Any] = [
    2**15 - 1, 2**15, -(2**15) - 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1,
    2**64, 10**18, 10**40, 10**308, 10**400, -(10**400), 10**4000, -0.0, 0.1, 1e-320, 5e-324, 1e16, 1e22, 1e300,
    -1e300, 1.7976931348623157e308, 0.30000000000000004, 86400 * 36525, 86400 * 36526, 32767.5, 1e9, 253402300800,
    -62135596801, 59.999999999, 1e-9,
]  # fmt: skip

TEXTS: list[Any] = [
    "\x00", "a\x00b", "\x01", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202e", "\u200b", "\ufeff", "\ufffe", "\uffff",
    "\ud800", "\udfff", "a\udc00b", "\U0001f600", "\U0010ffff", "e\u0301", "\u0130", "\u00df", "\u1e9e", "\u3000",
    "\r\n", "\n", "\t", "a\rb", "x" * 255, "x" * 256, "x" * 4096, "x" * 4097, "x" * 70_000, "\u00e9" * 40_000,
    "'", '"', "\\", "';--", "'; drop table scheduled_actions; --", "%", "%s", "%(id)s", "%n", "{}", "{0}",
    "{0.__class__}", "{{7*7}}", "{% raw %}", "${7*7}", "$(id)", "`id`", "<script>alert(1)</script>", "</textarea>",
    "<!--", "&amp;", "]]>", "../../etc/passwd", "..", ".", "/", "a/b", "//", "a//b", "/a", "a/", "%2F", "%00", "?", "#",
    "a?b=c", "a#b", ":", "a:", ":b", "a:b:c", "*", "**", "*:*", "*:" + "*" * 9, "a" * 199 + ":b", "a" * 200 + ":b",
    "__proto__", "constructor", "__class__", "self", "None", "nan", "inf", "Infinity", "-Infinity", "0x10", "1e400",
    "1_000", "\u0661\u0662", "\u00bd", "true ", "@", "@x", "@unknown", "counts", "batch", "move", "preview", "retry",
    "cancel", "00000000-0000-0000-0000-000000000000", "0197a000-0000-7000-8000-000000000001",
    "0197A000-0000-7000-8000-000000000001", "{0197a000-0000-7000-8000-000000000001}", "0197a00000007000800000000000001",
    "deadline:stage", "notification:send", "webhook:send", "for_each:run", "maintenance:prune", "email:send",
]  # fmt: skip

TIMES: list[Any] = [
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999-14:00",
    "10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-03-29T02:30:00", "2026-13-01",
    "2026-01-01", "20260101", "2026-W01-1", "2026-001", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z",
    "2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+23:59:59.999999", "2026-01-01 00:00:00 +01:00", "now", "infinity",
    "-infinity", "epoch", "tomorrow", "1970-01-01T00:00:00Z", "4714-11-24 BC", "294276-12-31T00:00:00Z",
    "PT0S", "PT1S", "-PT1S", "P1Y", "P1M", "P100000D", "PT999999999999S", "P1Y2M3DT4H5M6.7S", "PT", "P", "P1D2",
    "PT1,5S",
    "P9999999999999999999D", "PT1e3S", "5 minutes", "5m", "1 day before", "-1 day before", "1 day after",
    "999999999999 days before", "0 business days before", "1e9 days before", "10000 business days before",
    "day before", "at due", "30 days, 7 days, 1 day before", "every day", "Europe/Berlin", "europe/berlin", "UTC", "Z",
    "+01:00", "Mars/Base", "posixrules", "localtime", "Factory", "/etc/localtime", "../UTC", "Etc/GMT+99",
]  # fmt: skip

RULES: list[Any] = [
    "daily", "every 0 seconds", "every 1 second", "every 99999999999999 days", "every -1 days", "every 1e9 hours",
    "every 1 minutes minutes", "daily at 25:00", "daily at 02:30", "weekly", "monthly on the 31st", "* * * * *",
    "* * * * * *", "* * * * * * *", "60 * * * *", "0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "*/0 * * * *", "*/99999 * * * *",
    "0-59/1,0-59/1,0-59/1 * * * *", "@yearly", "@reboot", "@every 1h", "0 0 * * 8", "0 0 * * MON#9", "0 0 L-99 * *",
    "FREQ=SECONDLY", "FREQ=DAILY;COUNT=0", "FREQ=DAILY;COUNT=99999999999", "FREQ=DAILY;INTERVAL=0",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "FREQ=DAILY;BYHOUR=99", "FREQ=DAILY;UNTIL=00010101T000000Z",
    "FREQ=YEARLY;INTERVAL=9999999", "FREQ=DAILY;FREQ=WEEKLY", "RRULE:FREQ=DAILY\nEXDATE:20260101T000000Z",
    "FREQ=SECONDLY;INTERVAL=10007;BYHOUR=0,3,6,9,12,15,18,21;BYMINUTE=0;BYSECOND=0;COUNT=10000",
    "RRULE:FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366", "FREQ=MONTHLY;BYDAY=99MO", "FREQ=" + "A" * 900,
    "RDATE:" + ",".join(["20260101T000000Z"] * 60), "last business day of the month", "99th business day of the month",
    "0th business day of the month", "python:os.system", "function:missing", ";" * 500, "," * 500, "0 0 1 1 *;",
]  # fmt: skip

ADDRESSES: list[Any] = [
    "http://", "https://", "https://a", "https://*", "https://*.example.com/", "https://a..b/", "https://-a.example/",
    "https://a.example:0/", "https://a.example:99999/", "https://a.example:port/", "https://user:pw@a.example/",
    "https://[::1]/", "https://[::1", "https://[fe80::1%25eth0]/", "https://127.1/", "https://2130706433/",
    "https://0x7f.1/", "https://017700000001/", "https://169.254.169.254/latest", "https://localhost/",
    "ftp://a.example/",
    "file:///etc/passwd", "javascript:alert(1)", "gopher://a/", "//a.example/", "https:/a.example",
    "https://a.example/ x",
    "https://a.example/\r\nX: y", "https://\u0430.example/", "https://" + "a" * 64 + ".example/", "https://xn--/",
    "https://a.example/" + "x" * 3000, "HTTPS://A.EXAMPLE/", "https://a.example\\@b.example/", "https://a.example#@b/",
    "json://127.0.0.1/", "mailto:a@example.org", "mailtos://u:p@a.example", "slack://a/b/c", "a@b", "@", "a@", "@b",
    "a@b@c", "a b@example.org", "Ann <ann@example.org>", "Ann <ann@example.org", "a@[127.0.0.1]", "\u00e9@example.org",
    '"a\\"b"@example.org', "a@example.org, b@example.org", "a@example.org\r\nBcc: x@example.org", "+491701234567",
    "whsec_", "whsec_!!!", "whsec_" + "A" * 8, "whsec_" + "A" * 2000,
]  # fmt: skip

DOCUMENTS: list[Any] = [
    nested(5), nested(50), nested(99), nested(101), nested(600), nested(50, kind="object"), nested(101, kind="object"),
    list(range(2000)), {str(number): number for number in range(2000)}, [[]] * 500, [{}] * 500, [None] * 101,
    {"a\x00": 1}, {"\ud800": 1}, {"a" * 5000: 1}, {"a.b": 1}, {"": {"": {"": 1}}}, {"$ref": "#"}, {"__proto__": {}},
    {"type": "a"}, {"id": "1"}, {"type": "a", "id": "b/c"}, {"type": "a/b", "id": "c"}, {"type": 1, "id": 2},
    {"type": "a", "id": ""}, {"type": "", "id": "x"}, {"type": "a", "id": "x", "more": 1}, {"type": None, "id": None},
    {"kind": "none"}, {"kind": []}, {"kind": {}}, {"kind": "exponential", "base_seconds": 0},
    {"kind": "exponential", "base_seconds": 1e300}, {"kind": "linear", "base_seconds": -1}, {"kind": "delays"},
    {"kind": "delays", "seconds": []}, {"kind": "delays", "seconds": [math.pi] * 200}, {"kind": "delays",
    "seconds": {}},
    {"kind": "custom", "name": "missing"}, [1e300], [-1], ["1"], [1] * 101, [None, 1],
    {"entity_id": 1}, {"entity_id": []}, {"entity_id": "x" * 5000}, {"event": "a:b", "entity_type": "a",
    "entity_id": "1"},
    {"event": "a:b", "entity_type": "a", "entity_id": "1", "data": None},
    {"event": "*", "entity_type": [], "entity_id": {}}, {"endpoint": "x", "event": "a:b", "entity_type": "a",
    "entity_id": 1},
    {"traceparent": "x"}, {"traceparent": 1}, {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
    {"weekends": True}, {"weekends": "yes"}, {"holidays": "XX"}, {"holidays": ["DE", "DE-ZZ"]},
    {"dates": ["2026-02-30"]},
    {"dates": "2026-01-01"}, {"dates": [1]}, {"windows": [{"from": "25:00", "to": "x"}]},
    {"windows": ["22:00-06:00"] * 96},
    {"between": ["2026-01-01", "2025-01-01"]}, {"adjustment": "following"}, {"adjustment": 1},
    {"ranges": [["0001-01-01", "9999-12-31"]]},
]  # fmt: skip

CONDITIONS: list[Any] = [
    all_of(1), all_of(4), all_of(40), {"all": []}, {"any": []}, {"all": {}}, {"not": []}, {"all": [None]},
    {"all": [all_of(1)] * 200}, {"kind": "document_state"}, {"kind": "document_state", "target": 1, "state": []},
    {"kind": "document_state", "target": {"type": "a", "id": "b/c"}, "state": "x"},
    {"kind": "document_state", "target": {"type": "a", "id": []}, "state": {"x": 1}},
    {"kind": "field_value", "target": {"type": "a", "id": "1"}, "field": "x", "operator": "matches", "value": "(a+)+$"},
    {"kind": "field_value", "target": {"type": "a", "id": "1"}, "field": "x", "equals": 10**400},
    {"kind": "field_value", "target": {"type": "a", "id": "1"}, "field": [], "op": {}, "value": nested(50)},
    {"kind": "approval", "target": {"type": "a", "id": "1"}, "by": []}, {"kind": "all_completed", "actions": []},
    {"kind": "all_completed", "actions": ["x"]}, {"kind": "all_completed", "actions": 1}, {"kind": "deadline_passed"},
    {"kind": "deadline_passed", "at": []}, {"kind": "deadline_passed", "at": "9999-12-31T23:59:59-14:00"},
    {"kind": "query", "name": "missing"}, {"kind": "query", "name": []}, {"kind": "query", "name": "x",
    "parameters": 1},
    {"kind": "http", "url": []}, {"kind": "http", "url": "https://127.0.0.1/"}, {"kind": "http", "url": "ftp://a/"},
    {"kind": "http", "url": "https://a.example/", "headers": {"X": "a\r\nb"}}, {"kind": "function", "name": "missing"},
    {"kind": "custom", "name": {}}, {"wait": None}, {"wait": {}}, {"wait": []}, {"wait": all_of(1), "timeout": []},
    {"wait": all_of(1), "timeout": "P"}, {"wait": all_of(1), "timeout": 10**400}, {"wait": all_of(1), "timeout": -1},
    {"wait": all_of(1), "check_interval": 0}, {"wait": all_of(1), "check_interval": {}},
    {"wait": all_of(1), "max_checks": 0}, {"wait": all_of(1), "max_checks": 10**40}, {"wait": all_of(1),
    "max_checks": "x"},
    {"wait": all_of(1), "on_timeout": "fail"}, {"wait": all_of(1), "on_timeout": 1},
    {"wait": all_of(1), "on_timeout": [1]}, {"wait": all_of(1), "on_timeout": {}},
    {"wait": all_of(1), "on_timeout": [{"action_type": 1}]}, {"wait": all_of(1), "on_timeout": [{"action_type": None}]},
    {"wait": all_of(1), "on_timeout": [{"action_type": ["a"], "payload": {}}]},
    {"wait": all_of(1), "on_timeout": [{"action_type": {}, "payload": []}]},
    {"wait": {"wait": all_of(1)}}, {"wait": all_of(1), "more": 1},
]  # fmt: skip

FOLLOW_UPS: list[Any] = [
    follow_up(0), follow_up(4), follow_up(5), follow_up(6), follow_up(60), [follow_up(0)] * 20, [follow_up(0)] * 21,
    {"action_type": 1}, {"action_type": None, "payload": {}}, {"action_type": [], "payload": {}}, {"action_type": {}},
    {"action_type": "unknown:type"}, {"action_type": "x" * 300}, {"action_type": "\x00"}, {"payload": {}},
    follow_up(0, payload=None), follow_up(0, payload=[]), follow_up(0, payload="x"), follow_up(0, delay="P"),
    follow_up(0, delay=-1), follow_up(0, delay=1e300), follow_up(0, delay=10**400), follow_up(0, delay=True),
    follow_up(0, delay=[]), follow_up(0, scheduled_at="never"), follow_up(0, scheduled_at=1),
    follow_up(0, scheduled_at="2030-01-01"), follow_up(0, delay=1, scheduled_at="2030-01-01T00:00:00Z"),
    follow_up(0, priority="x"), follow_up(0, priority=10**40), follow_up(0, priority=1.5), follow_up(0, max_attempts=0),
    follow_up(0, retry="x"), follow_up(0, retry={"kind": []}), follow_up(0, team_id="blue"), follow_up(0, team_id=[]),
    follow_up(0, target=[]), follow_up(0, target={"type": []}), follow_up(0, metadata=1), follow_up(0,
    metadata=nested(99)),
    follow_up(0, lock_group=1), follow_up(0, lock_group_blocks="x"), follow_up(0, dedup_key=[]), follow_up(0,
    dedup_mode="x"),
    follow_up(0, dedup_mode=[]), follow_up(0, dedup_window="x"), follow_up(0, dedup_window=-1), follow_up(0, after="x"),
    follow_up(0, after=[1]), follow_up(0, after={}), follow_up(0, after=["0197a000-0000-7000-8000-000000000001"]),
    follow_up(0, condition=[]), follow_up(0, condition={"kind": 1}), follow_up(0, on_success=1), follow_up(0,
    unknown=1),
    follow_up(0, timezone=1), follow_up(0, timezone="Mars/Base"), follow_up(0, user_id={}), follow_up(0, created_by=[]),
    follow_up(0, limit=1), follow_up(0, limit=[]), follow_up(0, limit="unknown"), follow_up(0, limit=["a", ["b"]]),
    follow_up(0, limit="x" * 300), follow_up(0, expires_at="never"), follow_up(0, expires_at=1), follow_up(0,
    expires_in=0),
    follow_up(0, expires_in="PT1H"), follow_up(0, expires_in=1e300), follow_up(0, expires_in=10**400), follow_up(0,
    on_expiry=[]),
    follow_up(0, on_expiry="x", expires_in=60), follow_up(0, expires_at="2030-01-01T00:00:00Z", expires_in=60),
    follow_up(0, connection=1), follow_up(0, action_type="webhook:send", payload={"event": "a:b", "entity_type": "a"}),
]  # fmt: skip

FILTERS: list[Any] = [
    {"event": "a:b"}, {"data.x": {"$gt": []}}, {"data.x": {"$in": 1}}, {"data.x": {"$regex": "(a+)+$"}}, {"$and": []},
    {"$and": {}}, {"$or": [1]}, {"$not": []}, {"$not": {"$not": {"$not": {}}}}, {"$unknown": 1}, {"": 1}, {".": 1},
    {"data..x": 1}, {"data." + "x." * 200: 1}, {"data.x": {"$exists": "x"}}, {"data.x": nested(30)},
    {f"data.{number}": number for number in range(500)}, {"data.x": {"$gt": 10**400}}, {"data": {"$eq": nested(60)}},
]  # fmt: skip

#: Every hostile value.
VALUES: list[Any] = [
    *KINDS, *NUMBERS, *TEXTS, *TIMES, *RULES, *ADDRESSES, *DOCUMENTS, *CONDITIONS, *FOLLOW_UPS, *FILTERS,
]  # fmt: skip

#: JSON texts that Python's encoder does not produce, each to be inserted in place of a value.
RAW: list[str] = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "01", "+1", ".5", "1.", "0x10", "1" * 4301,
    "1" * 20_000,
    "-" + "9" * 5000, "1.0e" + "9" * 30, '"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\\x41"', '"\t"', '"', "'a'",
    "[" * 100_000, "[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000, "[1,]", '{"a":1,}', '{"a":1,"a":2}',
    "{a:1}", "tru", "undefined", "/**/1", "[1 2]", "1 2", "", '{"\\u0000":1}', '{"\\ud800":1}', "\ufeff1",
]  # fmt: skip


def text_of(value: Any) -> str:
    """Return the JSON text of any value."""
    return json.dumps(value)
