def test_the_url_of_a_feed_is_printed_only_when_it_is_created(run):
    created = run(
        "feeds", "create", "Nightly work", "--team", "billing", SCHEDULED_ACTIONS_URL="https://app.example.com"
    )

    (url,) = created.stdout.splitlines()
    assert url.startswith("https://app.example.com/calendar/saf_")
    assert url.endswith(".ics")
    listed = run("feeds", "list")
    assert "Nightly work" in listed.stdout
    assert url.rpartition("/")[2].removesuffix(".ics") not in listed.stdout


def test_a_feed_is_revoked_by_its_id(run):
    created = run("feeds", "create", "Nightly work", "--json").json

    ran = run("feeds", "revoke", created["id"])

    assert (ran.exit_code, ran.stdout) == (0, f"Nightly work ({created['hint']}…) revoked\n")
    assert run("feeds", "list", "--json").json["feeds"][0]["revoked_at"]


def test_an_empty_list_names_the_create_command_and_an_unknown_id_is_rejected(run):
    assert "feeds create" in run("feeds", "list").stdout
    ran = run("feeds", "revoke", "x")
    assert (ran.exit_code, ran.stderr) == (1, "error: no calendar feed has the id x\n")
