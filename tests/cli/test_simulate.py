import time

import pytest

from tests.factories import insert, insert_many


@pytest.fixture
def with_schedules(run):
    for rule, name in (("0 9 * * *", "report"), ("every hour", "sweep")):
        created = run("schedules", "create", "greeting:say", rule, "--payload", '{"name": "Ada"}', "--name", name)
        assert created.exit_code == 0, created.stderr
    return run


def test_json_has_every_hour_of_the_range(with_schedules):
    ran = with_schedules("simulate", "--from", "2031-05-05T00:00:00Z", "--to", "2031-05-06T00:00:00Z", "--json")

    document = ran.json
    assert len(document["hours"]) == 24
    assert document["runs"] == 25
    assert document["hours"][9]["runs"] == {"greeting:say": 2} or document["hours"][8]["runs"] == {"greeting:say": 2}
    assert document["capacity"] == {"concurrency": 8, "seconds_a_minute": 160.0}


def test_the_table_has_the_hours_with_runs(with_schedules):
    ran = with_schedules("simulate", "--from", "2031-05-05T00:00:00Z", "--to", "2031-05-05T03:00:00Z")

    lines = ran.stdout.splitlines()
    assert lines[0].split() == ["HOUR", "RUNS", "LOAD", "BEHIND", "TYPES"]
    assert len([line for line in lines if "greeting:say 1" in line]) == 3
    assert "3 actions; one ping a minute can process 160 handler seconds a minute (8 at once)" in lines


def test_pending_actions_take_the_median_duration_of_their_type(run, connection):
    for _ in range(3):
        insert(
            connection,
            status="completed",
            started_at="2026-01-01T00:00:00Z",
            completed_at="2026-01-01T00:00:10Z",
        )
    insert_many(connection, 100, scheduled_at="2031-05-05T00:00:30Z")

    ran = run("simulate", "--from", "2031-05-05T00:00:00Z", "--to", "2031-05-05T01:00:00Z", "--concurrency", "1")

    assert "test:run 100" in ran.stdout
    assert "start as much as 2,940 s late" in ran.stdout


def test_an_empty_range_is_reported(run):
    ran = run("simulate")

    assert ran.exit_code == 0
    assert ran.stdout.startswith("nothing will run")


def test_team_excludes_the_actions_of_other_teams(run, connection):
    insert(connection, scheduled_at="2031-05-05T00:00:30Z", team_id="a")
    insert(connection, scheduled_at="2031-05-05T00:00:30Z", team_id="b")

    ran = run("simulate", "--from", "2031-05-05T00:00:00Z", "--to", "2031-05-06", "--team", "a", "--json")

    assert ran.json["runs"] == 1


@pytest.mark.parametrize(
    ("end", "message"),
    [("2031-05-04T00:00:00Z", "must be after the start"), ("2031-12-05T00:00:00Z", "and at most 92 days later")],
)
def test_an_invalid_range_is_rejected(run, end, message):
    ran = run("simulate", "--from", "2031-05-05T00:00:00Z", "--to", end)

    assert ran.exit_code == 1
    assert message in ran.stderr


@pytest.fixture
def _local_timezone(monkeypatch, request):
    """Set the time zone of this machine to the parameter."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("_local_timezone", "options"),
    [
        ("Asia/Tokyo", ("--from", "0001-01-01")),
        ("Asia/Tokyo", ("--to", "0001-01-01T00:00")),
        ("America/New_York", ("--from", "9999-12-31T23:00")),
        ("America/New_York", ("--to", "9999-12-31")),
        ("America/New_York", ("--from", "P999999999D")),
    ],
    indirect=["_local_timezone"],
)
@pytest.mark.usefixtures("_local_timezone")
def test_a_local_time_outside_of_the_years_1_to_9999_in_utc_is_a_usage_error(run, options):
    ran = run("simulate", *options)

    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "is not an ISO 8601 time or day between the years 1 and 9999 in UTC" in " ".join(ran.stderr.split())


def test_the_default_end_of_a_range_is_not_after_the_year_9999(run):
    ran = run("simulate", "--from", "9999-12-31T12:00Z", "--json")

    assert ran.json["to"] == "9999-12-31T23:59:59.999999+00:00"
