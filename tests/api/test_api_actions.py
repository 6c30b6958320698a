"""`/api/v1/actions`: what each route takes, answers and refuses."""

from __future__ import annotations


def test_x(api, connection):
    r = api("POST", "/actions", {"action_type": "test:run", "payload": {"a": 1}})
    print(r.status_code, r.text, r.headers)
    i = r.json["id"]
    for m, p, b in [
        ("GET", f"/actions/{i}", None),
        ("PATCH", f"/actions/{i}", {"priority": 3}),
        ("PATCH", f"/actions/{i}?force=true", {"priority": 3}),
        ("GET", "/actions?limit=1", None),
        ("GET", "/actions/counts", None),
        ("GET", "/action-types", None),
        ("GET", "/ticks", None),
        ("POST", f"/actions/{i}/run-now", None),
        ("DELETE", f"/actions/{i}?force=true", None),
        ("POST", f"/actions/{i}/retry", None),
        ("DELETE", f"/actions/{i}?force=true", None),
        ("DELETE", f"/actions/{i}?purge=true", None),
        (
            "POST",
            "/actions/batch",
            {"actions": [{"action_type": "test:welcome", "payload": {}}, {"action_type": "tast", "payload": {}}]},
        ),
        (
            "POST",
            "/actions/batch",
            {
                "actions": [
                    {"action_type": "test:run", "payload": {}},
                    {"action_type": "test:run", "payload": {}, "delay": "PT5M"},
                ]
            },
        ),
        (
            "POST",
            "/actions",
            {
                "action_typ": "x",
                "payload": [],
                "priority": 1.5,
                "timezone": "x",
                "retry": {"kind": "x"},
                "target": {"type": 1},
                "delay": 1,
                "scheduled_at": "x",
            },
        ),
        ("POST", "/actions/cancel", {}),
        ("POST", "/actions/cancel", {"q": "test", "dry_run": True}),
        ("POST", "/actions/cancel", {"q": "test"}),
        ("POST", "/actions/retry", {"status": "cancelled"}),
        ("POST", "/tokens", {"name": "x", "role": "admin"}),
        ("GET", "/tokens", None),
    ]:
        r = api(m, p, b)
        print(m, p, r.status_code, r.text)
    assert 0
