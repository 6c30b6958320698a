"""Each example does what its name says, on a clock that the test moves."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import responses
from flask import Flask
from werkzeug.serving import make_server

from examples import (
    add_up_an_invoice,
    announce_a_webinar,
    build_the_compliance_report,
    build_the_financial_report,
    catch_forgotten_work,
    check_renewals_daily,
    downgrade_subscriptions,
    emit_task_created,
    escalate_to_the_cfo,
    fetch_exchange_rates,
    plan_performance_reviews,
    refresh_access_tokens,
    remind_of_open_carts,
    remind_of_the_stand_up,
    renew_certificates,
    renew_contracts,
    renew_licenses,
    send_late_payment_sms,
    send_the_welcome_mail,
    submit_purchase_orders,
)
from scheduled_actions import (
    ScheduledActions,
    action,
    emit_event,
    errors,
    list_deadlines,
    list_schedules,
    schedule_action,
)
from scheduled_actions.schedules.sync import sync
from scheduled_actions.testing import kit
from tests.examples.conftest import MONDAY, handlers
from tests.factories import PATIENCE

DAY = timedelta(days=1)


@action("certificate:renew")
def renew_certificate(payload: dict): ...


@action("order:submit")
def submit_order(payload: dict): ...


@action("sms:send")
def send_sms(payload: dict): ...


@pytest.fixture
def completed(scheduled_actions_kit):
    """Return a function that returns the completed actions of a type, the oldest first."""

    def of(action_type):
        return [
            one
            for one in scheduled_actions_kit.actions()
            if (one.action_type, one.status) == (action_type, "completed")
        ]

    return of


def test_the_welcome_mail_is_sent_an_hour_after_the_sign_up(scheduled_actions_kit, run_due):
    send_the_welcome_mail.signed_up("Ann", "ann@example.org")

    run_due(at=timedelta(minutes=59))
    assert scheduled_actions_kit.mails == []
    run_due(at=timedelta(minutes=1))
    (mail,) = scheduled_actions_kit.mails
    assert (mail["To"], mail["Subject"]) == ("ann@example.org", "Welcome")
    assert mail.get_content().startswith("Hello Ann")


def test_renewals_are_checked_every_day_from_the_start_date_on(run_until, completed):
    check_renewals_daily.check_renewals_daily(MONDAY + 5 * DAY)

    run_until(MONDAY + 7 * DAY)

    assert [one.scheduled_at - MONDAY for one in completed("billing:check-renewals")] == [5 * DAY, 6 * DAY, 7 * DAY]


def test_task_events_and_subscription_events_go_to_different_urls(captured_webhooks, run_due):
    emit_task_created.task_created("42", "Write the docs", team_id="acme")
    emit_event("subscription:renewed", entity_id="7", data={})

    run_due()

    assert sorted((one.endpoint, one.event) for one in captured_webhooks) == [
        ("subscriptions", "subscription:renewed"),
        ("tasks", "task:created"),
    ]
    task = captured_webhooks.of("task:created")[0].payload
    assert (task["entity"], task["entity_id"], task["team_id"]) == ("task", "42", "acme")
    assert task["data"] == {"title": "Write the docs"}


@handlers(add_up_an_invoice.add_up)
def test_the_total_of_an_invoice_is_the_result(run_due):
    with pytest.raises(errors.PayloadInvalid):
        schedule_action("invoice:add-up", {"amounts": ["a lot"]})
    schedule_action("invoice:add-up", {"amounts": [12, 30]})

    assert [one.result for one in run_due()] == [{"total": 42}]


@handlers(refresh_access_tokens.refresh_tokens)
def test_tokens_are_refreshed_every_30_minutes_by_one_schedule(scheduled_actions_kit, run_until, monkeypatch):
    monkeypatch.setenv("TOKEN_URL", "https://login.example.org/token")
    with responses.RequestsMock() as login:
        refreshed = login.post("https://login.example.org/token")
        run_until(timedelta(hours=1))
        sync(scheduled_actions_kit.runtime.schedules, force=True)  # as another start does
        run_until(timedelta(hours=1))

    assert refreshed.call_count == 4
    assert len(list_schedules()) == 1


@handlers(renew_licenses.start_approval)
def test_procurement_is_reminded_of_a_license_and_its_approval_starts(mails_until):
    renew_licenses.license_bought("7", datetime(2026, 6, 1, 12, tzinfo=UTC))

    assert mails_until(datetime(2026, 6, 2, tzinfo=UTC)) == [
        ("02 April", "procurement@example.org", "Coming up: license 7 is due in 60 days"),
        ("02 May", "cfo@example.org", "Please approve the renewal of license 7."),
        ("02 May", "procurement@example.org", "Coming up: license 7 is due in 30 days"),
        ("18 May", "procurement@example.org", "Reminder: license 7 is due in 14 days"),
        ("25 May", "procurement@example.org", "Due soon: license 7 in 7 days"),
    ]


@handlers(renew_licenses.start_approval)
def test_a_renewed_license_is_neither_reminded_of_nor_approved(mails_until):
    renew_licenses.license_bought("7", datetime(2026, 6, 1, 12, tzinfo=UTC))
    mails_until(datetime(2026, 5, 1, tzinfo=UTC))

    renew_licenses.license_renewed("7")

    assert mails_until(datetime(2026, 6, 2, tzinfo=UTC)) == []


@handlers(renew_certificate)
def test_a_certificate_is_renewed_30_and_7_days_before_it_expires(mails_until, completed):
    renew_certificates.certificate_issued("www.example.org", datetime(2026, 6, 1, 12, tzinfo=UTC))

    mails = mails_until(datetime(2026, 6, 2, tzinfo=UTC))

    assert [day for day, _, _ in mails] == ["02 April", "02 May", "18 May", "25 May", "31 May"]
    renewals = completed("certificate:renew")
    assert [f"{one.scheduled_at:%d %B}" for one in renewals] == ["02 May", "25 May"]
    assert [one.payload for one in renewals] == [{"host": "www.example.org"}] * 2


def test_two_people_are_reminded_of_a_tax_return_and_the_cfo_is_notified_a_day_after(mails_until):
    escalate_to_the_cfo.tax_return_due(2025, datetime(2026, 6, 1, 12, tzinfo=UTC))

    mails = mails_until(datetime(2026, 6, 3, tzinfo=UTC))

    for person in ("accountant@example.org", "controller@example.org"):
        assert [day for day, to, _ in mails if to == person] == ["02 April", "02 May", "18 May", "25 May", "31 May"]
    assert [day for day, to, _ in mails if to == "cfo@example.org"] == ["02 June"]


@handlers(build_the_compliance_report.build_compliance_report)
def test_the_compliance_report_is_built_on_the_last_business_day_of_the_month(run_until, completed):
    run_until(datetime(2026, 6, 1, tzinfo=UTC))

    reports = completed("report:compliance")
    assert [f"{one.scheduled_at:%d %B %H:%M}" for one in reports] == [
        "31 March 21:00",
        "30 April 21:00",
        "29 May 21:00",
    ]
    assert reports[0].result == {"report": "Compliance, March 2026"}


def test_managers_are_reminded_of_the_performance_reviews_every_march(clock, mails_until):
    clock.set(datetime(2027, 2, 1, tzinfo=UTC))
    plan_performance_reviews.plan_performance_reviews(["ann@example.org", "ben@example.org"])

    mails = mails_until(datetime(2027, 4, 1, tzinfo=UTC))

    for manager in ("ann@example.org", "ben@example.org"):
        assert [day for day, to, _ in mails if to == manager] == ["01 March", "17 March", "24 March", "30 March"]
    assert [f"{one.due_at:%Y-%m-%d}" for one in list_deadlines()] == ["2028-03-31", "2027-03-31"]


@handlers(build_the_financial_report.build_financial_report)
def test_the_financial_report_is_built_at_the_end_of_each_quarter(run_until, completed):
    build_the_financial_report.plan_financial_report("ACME")

    run_until(datetime(2026, 10, 1, tzinfo=UTC))

    reports = completed("report:financial")
    assert [f"{one.scheduled_at:%d %B}" for one in reports] == ["31 March", "30 June", "30 September"]
    assert reports[0].result == {"report": "ACME, financial report"}


def test_the_owner_of_each_contract_is_reminded_and_legal_is_notified_when_it_ends(mails_until):
    first = renew_contracts.Contract("c-1", "ann@example.org", datetime(2026, 6, 10, 12, tzinfo=UTC))
    second = renew_contracts.Contract("c-2", "ben@example.org", datetime(2026, 7, 10, 12, tzinfo=UTC))
    renew_contracts.plan_renewals([first, second])

    mails = mails_until(datetime(2026, 6, 11, tzinfo=UTC))

    assert [day for day, to, _ in mails if to == first.owner] == ["12 March", "11 April", "11 May"]
    assert [day for day, to, _ in mails if to == second.owner] == ["11 April", "11 May", "10 June"]
    escalations = [(day, subject) for day, to, subject in mails if to == "legal@example.org"]
    assert [day for day, _ in escalations] == ["10 June"]
    assert "contract c-1" in escalations[0][1]


@handlers(submit_order)
def test_an_order_is_submitted_when_all_approvers_have_approved_it(run_due, assert_scheduled):
    submit_purchase_orders.order_written("PO-9", ["ann", "ben"])
    submit_purchase_orders.order_approved("PO-9", "ann")
    run_due()
    assert_scheduled("order:submit", status="pending")

    submit_purchase_orders.order_approved("PO-9", "ben")
    run_due()

    assert_scheduled("order:submit", status="completed", payload__contains={"number": "PO-9"}, count=1)


@handlers(remind_of_the_stand_up.remind)
def test_each_member_is_reminded_at_nine_in_their_own_zone_on_workdays(
    scheduled_actions_kit, clock, run_until, completed
):
    clock.set(MONDAY - timedelta(hours=12))
    members = {"ann@example.org": "Europe/Berlin", "kai@example.org": "Asia/Tokyo"}
    remind_of_the_stand_up.plan_stand_up(members)

    run_until(timedelta(days=7))

    reminded = completed("stand-up:remind")
    for member, zone in members.items():
        times = [f"{one.scheduled_at.astimezone(ZoneInfo(zone)):%a %H:%M}" for one in reminded if one.user_id == member]
        assert times == ["Mon 09:00", "Tue 09:00", "Wed 09:00", "Thu 09:00", "Fri 09:00"]
        assert len([mail for mail in scheduled_actions_kit.mails if mail["To"] == member]) == 5


def test_participants_of_a_webinar_read_its_start_in_their_own_zone(scheduled_actions_kit, mails_until):
    participants = {"ann@example.org": "Europe/Berlin", "kai@example.org": "Asia/Tokyo"}
    announce_a_webinar.plan_webinar("Webinar", datetime(2026, 3, 4, 15, tzinfo=UTC), participants)

    mails_until(datetime(2026, 3, 4, 15, tzinfo=UTC))

    texts = {mail["To"]: mail.get_body(("plain",)).get_content() for mail in scheduled_actions_kit.mails}
    assert len(scheduled_actions_kit.mails) == 4
    assert "Wednesday, 4 March 2026, 16:00 (Europe/Berlin)" in texts["ann@example.org"]
    assert "Thursday, 5 March 2026, 00:00 (Asia/Tokyo)" in texts["kai@example.org"]


@handlers(send_sms)
def test_an_sms_about_a_late_payment_is_sent_on_five_days(scheduled_actions_kit, run_until, completed):
    with served(scheduled_actions_kit.runtime) as api:
        send_late_payment_sms.send_late_payment_sms(api, kit.SECRETS["ADMIN_TOKEN"], "+49 30 1234", MONDAY + DAY)

    run_until(timedelta(days=10))

    sent = completed("sms:send")
    assert [one.scheduled_at - MONDAY for one in sent] == [number * DAY for number in range(1, 6)]
    assert sent[0].payload == {"to": "+49 30 1234", "text": "Your payment is late."}


@contextmanager
def served(runtime):
    app = Flask(__name__)
    ScheduledActions(app, runtime=runtime)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(PATIENCE)
        server.server_close()


@pytest.fixture
def plan_of_subscription(connection):
    """Create a subscription; return a function that returns its plan."""
    connection.execute("create table subscriptions (id int primary key, plan text)")
    connection.execute("insert into subscriptions values (7, 'team')")
    return lambda: connection.execute("select plan from subscriptions").fetchone()[0]


@handlers(downgrade_subscriptions.downgrade)
def test_a_subscription_is_downgraded_at_the_end_of_its_cycle_to_the_plan_chosen_last(plan_of_subscription, run_due):
    downgrade_id = downgrade_subscriptions.downgrade_later(7, "basic", MONDAY + 20 * DAY)
    downgrade_subscriptions.choose_another_plan(downgrade_id, 7, "free")

    run_due(at=MONDAY + 20 * DAY - timedelta(seconds=1))
    assert plan_of_subscription() == "team"
    run_due(at=MONDAY + 20 * DAY)
    assert plan_of_subscription() == "free"


@handlers(downgrade_subscriptions.downgrade)
def test_a_user_can_keep_the_plan_until_two_minutes_before_the_end_of_the_cycle(plan_of_subscription, clock, run_due):
    first = downgrade_subscriptions.downgrade_later(7, "free", MONDAY + DAY)
    second = downgrade_subscriptions.downgrade_later(7, "basic", MONDAY + 2 * DAY)

    clock.set(MONDAY + DAY - timedelta(seconds=119))
    with pytest.raises(errors.ActionLocked):
        downgrade_subscriptions.keep_plan(first)
    clock.set(MONDAY + 2 * DAY - timedelta(seconds=121))
    downgrade_subscriptions.keep_plan(second)

    run_due(at=MONDAY + 3 * DAY)
    assert plan_of_subscription() == "free"


def test_exchange_rates_are_fetched_every_day(run_until, completed, monkeypatch):
    monkeypatch.setenv("RATES_URL", "https://bank.example.org/rates")
    rates = {"base": "EUR", "date": "2026-03-02", "rates": {"USD": "1.0812"}}
    fetch_exchange_rates.fetch_rates_daily()

    with responses.RequestsMock() as bank:
        bank.get("https://bank.example.org/rates", json=rates)
        run_until(timedelta(days=2))

    fetched = completed("rates:fetch")
    assert [f"{one.scheduled_at:%d %H:%M}" for one in fetched] == ["02 15:30", "03 15:30"]
    assert fetched[0].result == rates


def test_the_client_of_each_open_cart_is_mailed_once(scheduled_actions_kit, connection, mails_until):
    connection.execute("create table carts (id int, email text, items int, changed_at timestamptz, ordered boolean)")
    connection.execute(
        "insert into carts values (1, 'ann@example.org', 3, %s, false), (2, 'ben@example.org', 5, %s, false),"
        " (3, 'kai@example.org', 1, %s, true)",
        [MONDAY - 2 * DAY, MONDAY, MONDAY - 2 * DAY],
    )
    remind_of_open_carts.remind_of_open_carts()

    assert [mail[:2] for mail in mails_until(MONDAY + 2 * DAY)] == [
        ("02 March", "ann@example.org"),
        ("03 March", "ben@example.org"),
    ]
    assert scheduled_actions_kit.mails[0].get_content().strip() == "There are 3 items in your cart."


def test_the_user_and_the_manager_are_notified_of_a_case_that_is_not_answered_for_a_day(mails_until):
    catch_forgotten_work.case_opened("case 1", "ann@example.org", "manager@example.org")
    catch_forgotten_work.case_opened("case 2", "ann@example.org", "manager@example.org")
    catch_forgotten_work.case_answered("case 2")

    mails = mails_until(MONDAY + 3 * DAY)

    assert [(day, to) for day, to, _ in mails] == [
        ("03 March", "ann@example.org"),
        ("03 March", "manager@example.org"),
    ]
    assert all("case 1" in subject for _, _, subject in mails)


@handlers(catch_forgotten_work.forgotten)
def test_the_user_and_the_manager_are_notified_once_of_an_aaa_client_who_is_not_contacted_for_30_days(
    connection, mails_until
):
    connection.execute(
        "create table clients (name text, rating text, contacted_at timestamptz, account_manager text, manager text)"
    )
    connection.execute(
        "insert into clients values ('ACME', 'AAA', %s, 'ann@example.org', 'ben@example.org'),"
        " ('Small', 'B', %s, 'ann@example.org', 'ben@example.org')",
        [MONDAY - 28 * DAY, MONDAY - 60 * DAY],
    )
    catch_forgotten_work.watch_clients()

    assert mails_until(MONDAY + 6 * DAY) == [
        ("04 March", "ann@example.org", "ACME was not contacted for 30 days."),
        ("04 March", "ben@example.org", "ACME was not contacted for 30 days."),
    ]
