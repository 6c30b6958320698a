"""`preview`: shows the occurrences of a rule, without a database or a project."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from scheduled_actions.cli import main


@pytest.fixture
def preview(tmp_path, monkeypatch):
    """Return a function that runs `preview` in an empty directory without a reachable database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", "postgresql://nowhere.invalid/none")
    monkeypatch.delenv("SCHEDULED_ACTIONS_PROJECT", raising=False)

    def run(*arguments):
        ran = CliRunner().invoke(main, ["preview", *map(str, arguments)])
        if ran.exception is not None and not isinstance(ran.exception, SystemExit):
            raise ran.exception
        return ran

    return run


def test_the_fields_of_the_json_output(preview):
    ran = preview("0 9 * * *", "--timezone", "America/New_York", "--from", "2026-10-30", "--count", "3", "--json")

    assert ran.exit_code == 0
    assert json.loads(ran.stdout) == {
        "rule": "0 9 * * *",
        "kind": "cron",
        "description": "At 09:00 in America/New_York",
        "occurrences": [
            {"at": "2026-10-30T09:00:00-04:00", "utc": "2026-10-30T13:00:00+00:00"},
            {"at": "2026-10-31T09:00:00-04:00", "utc": "2026-10-31T13:00:00+00:00"},
            {"at": "2026-11-01T09:00:00-05:00", "utc": "2026-11-01T14:00:00+00:00"},
        ],
        "warnings": [],
    }


def test_the_table_has_local_time_utc_and_the_reason_for_each_skip(preview):
    ran = preview(
        "last business day of the quarter", "--holidays", "US", "--timezone", "America/New_York",
        "--from", "2027-10-30T09:00", "--count", "2",
    )  # fmt: skip

    assert ran.exit_code == 0
    assert ran.stdout == (
        "Last business day of the quarter at 09:00 in America/New_York, except holidays (US)\n"
        "\n"
        "LOCAL TIME                     UTC\n"
        "Thu 2027-12-30 09:00:00-05:00  2027-12-30 14:00:00\n"
        "    Friday 2027-12-31 is a holiday (New Year's Day (observed), US): not a business day\n"
        "Fri 2028-03-31 09:00:00-04:00  2028-03-31 13:00:00\n"
    )


def test_warnings_are_printed_at_the_end(preview):
    ran = preview("monthly", "--from", "2026-10-31", "--until", "2026-12-31")

    assert ran.stdout.splitlines()[-3:] == [
        "",
        "warning: In months without day 31, the rule occurs on the last day",
        "warning: The rule ends after 2 occurrences",
    ]


def test_an_interval_counts_from_now_by_default(preview):
    before = datetime.now(UTC)

    shown = json.loads(preview("PT10M", "--count", "1", "--json").stdout)["occurrences"][0]["utc"]

    assert timedelta(minutes=9, seconds=59) <= datetime.fromisoformat(shown) - before <= timedelta(minutes=11)


def test_a_time_without_offset_is_local_to_the_time_zone_of_the_rule(preview):
    def first(start):
        given = ("--timezone", "America/New_York", "--from", start, "--count", "1", "--json")
        return json.loads(preview("hourly", *given).stdout)["occurrences"][0]["utc"]

    assert first("2026-10-30T09:00") == "2026-10-30T14:00:00+00:00"
    assert first("2026-10-30T09:00Z") == "2026-10-30T10:00:00+00:00"


@pytest.mark.parametrize(
    ("options", "days"),
    [
        (["--skip-weekends"], ["24", "25", "28", "29"]),
        (["--holidays", "US"], ["24", "26", "27", "28"]),
        (["--holidays", "NYSE", "--skip-weekends"], ["24", "28", "29", "30"]),
        (["--skip-date", "2026-12-25", "--skip-date", "2026-12-27"], ["24", "26", "28", "29"]),
        (["--skip-range", "2026-12-25..2026-12-27"], ["24", "28", "29", "30"]),
        (["--skip-window", "2026-12-24T00:00Z..2026-12-26T00:00Z"], ["26", "27", "28", "29"]),
        (["--skip-weekends", "--adjustment", "following"], ["24", "25", "28", "29"]),
        (["--skip-weekends", "--adjustment", "preceding"], ["24", "25", "28", "29"]),
        (["--skip-window", "22:00-10:00", "--adjustment", "following"], ["23", "24", "25", "26"]),
    ],
)
def test_every_kind_of_skip_has_an_option(preview, options, days):
    ran = preview("daily", "--from", "2026-12-23T09:00Z", "--count", "4", *options, "--json")

    assert [occurrence["at"][8:10] for occurrence in json.loads(ran.stdout)["occurrences"]] == days


def test_until_includes_the_whole_day(preview):
    def count(until):
        given = ("--timezone", "UTC", "--from", "2026-12-23T09:00", "--until", until, "--json")
        return len(json.loads(preview("daily", *given).stdout)["occurrences"])

    assert count("2026-12-25") == 2
    assert count("2026-12-25T08:59") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["dayly"], 1, 'error: recurrence "dayly": is not a recurrence; did you mean "daily"?'),
        (["0 9 * *"], 1, "found 4"),
        (["0 0 30 2 *"], 1, 'error: recurrence "0 0 30 2 *":'),
        (["FREQ=DAILY;INTERVAL=0"], 1, 'error: recurrence "FREQ=DAILY;INTERVAL=0":'),
        (["daily", "--timezone", "Mars/X"], 1, "error: --timezone: 'Mars/X' is not an IANA time zone"),
        (["daily", "--holidays", "ZZ"], 1, 'error: skip.holidays "ZZ": is an unknown country'),
        (["daily", "--skip-date", "2026-02-30"], 1, "error: skip.dates[0]: '2026-02-30' is not a day"),
        (["daily", "--skip-range", "2026-12-25..x"], 1, "error: skip.ranges[0].to: 'x' is not a day"),
        (["daily", "--skip-window", "22:00-25:00"], 1, "error: skip.windows[0].to: '25:00' is not"),
        (["daily", "--from", "9999-12-31"], 1, "error: --from: "),
        (["daily", "--until", "2001-01-01"], 1, "before its first occurrence"),
        (
            ["daily", "--skip-range", "2026-12-25"],
            2,
            "'2026-12-25' is not a range of days, such as 2026-12-24..2027-01-02",
        ),
        (["daily", "--skip-window", "22:00"], 2, "'22:00' is not a maintenance window, such as 22:00-02:00"),
        (["daily", "--count", "0"], 2, "'0' is not a whole number from 1 to 1000"),
        (["daily", "--count", "1001"], 2, "'1001' is not a whole number from 1 to 1000"),
        (["daily", "--from", "tomorrow"], 2, "'tomorrow' is not an ISO 8601 time"),
        (["daily", "--adjustment", "next"], 2, "'next' is not one of 'drop', 'preceding', 'following'"),
        ([], 2, "Missing argument 'RULE'"),
    ],
)
def test_invalid_arguments_are_rejected_without_a_traceback(preview, arguments, code, message):
    ran = preview(*arguments)

    assert (ran.exit_code, ran.stdout) == (code, "")
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_control_characters_of_a_rule_are_escaped(preview):
    ran = preview("daily\x1b[2J")

    assert ran.exit_code == 1
    assert "\x1b" not in ran.stdout
