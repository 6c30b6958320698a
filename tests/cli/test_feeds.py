def test_an_address_is_printed_alone_and_once(run):
    made = run("feeds", "create", "Nightly work", "--team", "billing", SCHEDULED_ACTIONS_URL="https://app.example.com")

    (address,) = made.stdout.splitlines()
    assert address.startswith("https://app.example.com/calendar/saf_")
    assert address.endswith(".ics")
    listed = run("feeds", "list")
    assert "Nightly work" in listed.stdout
    assert address.rpartition("/")[2].removesuffix(".ics") not in listed.stdout


def test_a_feed_is_revoked_by_its_id(run):
    made = run("feeds", "create", "Nightly work", "--json").json

    ran = run("feeds", "revoke", made["id"])

    assert (ran.exit_code, ran.stdout) == (0, f"Nightly work ({made['hint']}…) revoked\n")
    assert run("feeds", "list", "--json").json["feeds"][0]["revoked_at"]


def test_no_feed_is_no_feed(run):
    assert "feeds create" in run("feeds", "list").stdout
    ran = run("feeds", "revoke", "x")
    assert (ran.exit_code, ran.stderr) == (1, "error: no calendar feed has the id x\n")
