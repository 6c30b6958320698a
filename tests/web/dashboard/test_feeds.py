"""Calendar feeds: create, list and revoke them, with the required role."""

from __future__ import annotations

import re

import pytest

from scheduled_actions.operations import tokens


def address_in(page):
    return re.search(r'value="http://localhost(/calendar/saf_[^"]+\.ics)"', page.text)[1]


def test_a_feed_is_created_and_its_address_shown_once(admin_person, client):
    assert "No feeds yet" in admin_person.opens("/calendar/feeds").text

    made = admin_person.makes("/calendar/feeds", name="Nightly work", team_id="red")

    path = address_in(made)
    assert client.get(path).status_code == 200
    listed = admin_person.opens("/calendar/feeds").text
    assert "Nightly work" in listed
    assert "team red" in listed
    assert path not in listed


def test_a_revoked_feed_is_not_found(admin_person, client):
    made = admin_person.makes("/calendar/feeds", name="Work")
    feed_id = re.search(r"/calendar/feeds/([0-9a-f-]{36})/revoke", made.text)[1]

    refused = admin_person.sends(f"/calendar/feeds/{feed_id}/revoke", "forged")
    assert (refused.status_code, client.get(address_in(made)).status_code) == (400, 200)
    assert admin_person.sends(f"/calendar/feeds/{feed_id}/revoke").status_code == 303

    assert client.get(address_in(made)).status_code == 404
    assert "revoked" in admin_person.opens("/calendar/feeds").text


@pytest.mark.parametrize("fields", [{}, {"name": "x" * 101}, {"name": "ok", "user_id": "a\0"}])
def test_an_invalid_form_is_shown_again_with_the_error(admin_person, fields):
    sent = admin_person.sends("/calendar/feeds", **fields)

    assert sent.status_code == 400
    assert 'role="alert"' in sent.text
    assert "No feeds yet" in sent.text


def test_a_viewer_cannot_create_feeds(a_person):
    person = a_person("viewer")

    assert person.opens("/calendar/feeds").status_code == 403
    assert person.sends("/calendar/feeds", person.csrf(), name="Work").status_code == 403
    assert "Subscribe" not in person.opens("/calendar").text


def test_a_team_creates_and_sees_only_its_own_feeds(a_person, admin_person, client):
    theirs = admin_person.makes("/calendar/feeds", name="Theirs", team_id="blue")
    feed_id = re.search(r"/calendar/feeds/([0-9a-f-]{36})/revoke", theirs.text)[1]
    person = a_person("operator", "red")

    made = person.makes("/calendar/feeds", name="Ours")

    assert "team red" in made.text
    assert "Theirs" not in person.opens("/calendar/feeds").text
    assert person.sends(f"/calendar/feeds/{feed_id}/revoke").status_code == 404
    sly = person.sends("/calendar/feeds", name="Sly", team_id="blue")
    assert (sly.status_code, "bound to another team" in sly.text) == (400, True)
    assert client.get(address_in(theirs)).status_code == 200


def test_a_feed_ends_with_the_token_that_created_it(a_person, client, connection):
    person = a_person("operator")
    path = address_in(person.makes("/calendar/feeds", name="Mine"))
    (token,) = tokens.newest(connection)

    tokens.revoke(connection, token.id)

    assert client.get(path).status_code == 404
