from __future__ import annotations

import base64
from dataclasses import asdict

import pytest

from scheduled_actions.core import config
from scheduled_actions.core.config import EndpointSection, Executor, Limit, Settings
from scheduled_actions.core.config.checks import Rate
from scheduled_actions.core.errors import ConfigInvalid, NotConfigured
from scheduled_actions.core.secret import Secret

LONG = "0123456789abcdef"
OTHER = "fedcba9876543210"


@pytest.fixture
def loaded(tmp_path):
    """Return a function that loads a configuration from TOML and an environment."""

    def load(toml="", **environ):
        (tmp_path / "scheduled_actions.toml").write_text(toml, encoding="utf-8")
        return config.load(tmp_path, environ)

    return load


def test_every_setting_has_its_documented_default(tmp_path):
    settings = config.load(tmp_path, {}).settings

    assert {name: value for name, value in asdict(settings).items() if name != "email"} == {
        "url": None,
        "enabled": True,
        "batch_size": 100,
        "concurrency": 8,
        "default_timeout_seconds": 30,
        "function_timeout_seconds": 5,
        "max_run_seconds": 20,
        "max_duration_seconds": 55,
        "linger_seconds": 0,
        "fair_by_team": True,
        "max_attempts": 3,
        "trusted_proxies": (),
        "edit_lock_seconds": 120,
        "retention_days": 7,
        "retention_failed_days": 90,
        "retention_no_action_days": 0,
        "retention_deadlines_days": 3650,
        "statement_timeout_seconds": 10,
        "http_threads": 8,
        "database_direct": False,
        "deduplication": {"window_seconds": 5},
        "teams": {"concurrency": None, "concurrency_of": {}},
        "retry": {"base_seconds": 60, "cap_seconds": 3600},
        "webhooks": {
            "routing": "all",
            "default_endpoint": None,
            "private_networks": ("127.0.0.0/8", "::1/128"),
            "egress_proxy": None,
            "ca_file": None,
            "alert_email": None,
            "events": {},
            "endpoints": {},
        },
        "conditions": {"private_networks": ()},
        "limits": {},
        "executors": {},
        "queries": {},
        "notifications": {
            "urgent_days": 1,
            "high_days": 7,
            "medium_days": 14,
            "timezone": "UTC",
            "quiet_hours": None,
            "urgent_passes_quiet_hours": True,
            "digest_seconds": 5,
            "channels": {},
            "channels_open_to_teams": (),
        },
    }


def test_the_file_overrides_the_defaults(loaded):
    settings = loaded("batch_size = 7\n[retry]\nbase_seconds = 5").settings

    assert (settings.batch_size, settings.retry.base_seconds, settings.retry.cap_seconds) == (7, 5, 3600)


@pytest.mark.parametrize(
    ("toml", "environ", "size"),
    [
        ("database_direct = true", {}, 500),
        ("", {"SCHEDULED_ACTIONS_DATABASE_DIRECT": "true"}, 500),
        ("database_direct = false", {}, 100),
        ("database_direct = true\nbatch_size = 100", {}, 100),
        ("batch_size = 7", {"SCHEDULED_ACTIONS_DATABASE_DIRECT": "true"}, 7),
        ("database_direct = true", {"SCHEDULED_ACTIONS_BATCH_SIZE": "8"}, 8),
        ("database_direct = true", {"SCHEDULED_ACTIONS_DATABASE_DIRECT": "false"}, 100),
    ],
)
def test_a_direct_connection_sets_the_default_of_the_batch_size(loaded, toml, environ, size):
    assert loaded(toml, **environ).settings.batch_size == size


def test_the_environment_overrides_the_file(loaded):
    settings = loaded(
        "enabled = true\nbatch_size = 7\n[retry]\nbase_seconds = 5",
        SCHEDULED_ACTIONS_ENABLED="false",
        SCHEDULED_ACTIONS_BATCH_SIZE="8",
        SCHEDULED_ACTIONS_RETRY_BASE_SECONDS="6.5",
        SCHEDULED_ACTIONS_DEDUPLICATION_WINDOW_SECONDS="0",
        SCHEDULED_ACTIONS_WEBHOOKS_ROUTING="most_specific",
    ).settings

    assert settings.enabled is False
    assert settings.batch_size == 8
    assert settings.retry.base_seconds == 6.5
    assert settings.deduplication.window_seconds == 0
    assert settings.webhooks.routing == "most_specific"


def test_every_setting_can_be_overridden_by_the_environment(loaded):
    examples = {bool: "false", int: "30", float: "30", str: "text"}
    named = config.setting_names()

    for variable, dotted in named.items():
        section, _, name = dotted.rpartition(".")
        default = getattr(getattr(Settings(), section) if section else Settings(), name)
        value = str(default) if name in {"routing", "security"} else examples.get(type(default), "30")
        if name in {"default_endpoint", "linger_seconds", "max_duration_seconds", "max_run_seconds"}:
            continue  # Checked together with other settings.
        if name in {"urgent_days", "high_days", "medium_days"}:
            continue  # Also checked together.
        if name in {
            "private_networks",
            "egress_proxy",
            "url",
            "timezone",
            "quiet_hours",
            "channels_open_to_teams",
            "trusted_proxies",
        }:
            continue  # Neither strings nor numbers; tested below.
        settings = loaded(**{variable: value}).settings

        found = getattr(getattr(settings, section) if section else settings, name)
        assert str(found).lower().removesuffix(".0") == value, variable


def test_the_environment_separates_channels_by_commas(loaded):
    found = loaded(SCHEDULED_ACTIONS_NOTIFICATIONS_CHANNELS_OPEN_TO_TEAMS="support, ops").settings.notifications

    assert found.channels_open_to_teams == ("support", "ops")


@pytest.mark.parametrize(("name", "value"), [("PROJECT", "."), ("ENV", "test")])
def test_a_prefixed_variable_that_is_not_a_setting_is_ignored(loaded, name, value):
    assert loaded(**{f"SCHEDULED_ACTIONS_{name}": value}).settings == Settings()


@pytest.mark.parametrize(
    ("toml", "environ", "message"),
    [
        (
            "batch_sice = 7",
            {},
            "scheduled_actions.toml: batch_sice is not a setting; did you mean batch_size?",
        ),
        ("[retri]\nbase_seconds = 7", {}, "scheduled_actions.toml: retri is not a setting; did you mean retry?"),
        (
            "[retry]\nbase = 7",
            {},
            "scheduled_actions.toml: retry.base is not a setting; did you mean retry.base_seconds?",
        ),
        (
            "[email]\nbatch_sise = 7",
            {},
            "email.batch_sise is not a setting; did you mean batch_size (above the first [table])?",
        ),
        ("[email]\ncap_seconds = 7", {}, "email.cap_seconds is not a setting; did you mean retry.cap_seconds?"),
        ("[limits.'a.b']\nconcurrency = 7", {}, 'limits."a.b".concurrency is not a setting; the page "Settings"'),
        ("[email]\ntimeout = 7", {}, "email.timeout is not a setting; did you mean email.timeout_seconds?"),
        (
            "[webhooks.endpoints.crm]\npattern = ['*:*']",
            {},
            "webhooks.endpoints.crm.pattern is not a setting; did you mean webhooks.endpoints.crm.patterns?",
        ),
        ("maxAttempts = 7", {}, "scheduled_actions.toml: maxAttempts is not a setting; did you mean max_attempts?"),
        ("[retry]\nbaseSeconds = 7", {}, "retry.baseSeconds is not a setting; did you mean retry.base_seconds?"),
        (
            "[webhooks.endpoints.crm]\nenvVar = 'CRM_URL'",
            {},
            "webhooks.endpoints.crm.envVar is not a setting; did you mean webhooks.endpoints.crm.env_var?",
        ),
        ("colour = 7", {}, 'scheduled_actions.toml: colour is not a setting; the page "Settings" of the documentation'),
        ("batch_size = 0", {}, "scheduled_actions.toml: batch_size = 0: must be a whole number from 1 to 1000"),
        (
            "",
            {"SCHEDULED_ACTIONS_NOTIFICATIONS_TIMEZONE": "Mars"},
            "must be an IANA time zone, such as Europe/Berlin",
        ),
        ("[queries]\na = 7", {}, "queries.a = 7: must be a table"),
        ("[queries.a]\nsql = 'delete from x'", {}, "must be one SQL select without inner semicolons"),
        ("[queries.a]\nsql = 'select 1; select 2'", {}, "must be one SQL select without inner semicolons"),
        ("[queries.a]\nsql = \"select 'a%'\"", {}, "other percent signs as %%"),
        ("[queries.a]\nsql = 'select %s'", {}, "must have its parameters in the form %(name)s"),
        ("[notifications]\nquiet_hours = '8-9'", {}, "notifications.quiet_hours = '8-9': must be a range of times"),
        ("[notifications]\nhigh_days = 20", {}, "high_days = 20: must be from urgent_days (1) to medium_days (14)"),
        ("[notifications]\nchannels = 7", {}, "channels = 7: must be a table of variable names by channel, such as"),
        ("[notifications.channels]\nops = 'a b'", {}, "must be the name of an environment variable"),
        ("[notifications.channels]\n'a b' = 'X'", {}, "that start with a letter or digit, not 'a b'"),
        ("batch_size = true", {}, "batch_size = True: must be a whole number"),
        ("batch_size = 1.5", {}, "batch_size = 1.5: must be a whole number"),
        ("default_timeout_seconds = inf", {}, "default_timeout_seconds = inf: must be"),
        ("enabled = 'maybe'", {}, "enabled = 'maybe': must be true or false"),
        ("retry = 7", {}, "scheduled_actions.toml: retry = 7: must be a table"),
        ("batch_size =", {}, "scheduled_actions.toml is not valid TOML"),
        ("max_run_seconds = 55", {}, "max_run_seconds = 55: must be below max_duration_seconds (55)"),
        (
            "[webhooks]\ndefault_endpoint = 'crm'",
            {},
            "default_endpoint = 'crm': must be a declared endpoint (declared: none)",
        ),
        (
            "",
            {"SCHEDULED_ACTIONS_BATCH_SICE": "7"},
            "SCHEDULED_ACTIONS_BATCH_SICE is not a setting; did you mean SCHEDULED_ACTIONS_BATCH_SIZE?",
        ),
        (
            "batch_size = 7",
            {"SCHEDULED_ACTIONS_BATCH_SIZE": "many"},
            "environment variable SCHEDULED_ACTIONS_BATCH_SIZE: batch_size = 'many': must be a whole number",
        ),
        (
            "",
            {"SCHEDULED_ACTIONS_RETRY_CAP_SECONDS": "nan"},
            "environment variable SCHEDULED_ACTIONS_RETRY_CAP_SECONDS: retry.cap_seconds = 'nan': must be",
        ),
    ],
)
def test_the_error_for_an_invalid_setting_names_the_key_the_value_and_valid_values(loaded, toml, environ, message):
    with pytest.raises(ConfigInvalid) as refused:
        loaded(toml, **environ)

    assert message in str(refused.value)


def test_the_error_for_a_file_that_is_not_text_names_the_file(tmp_path):
    (tmp_path / "scheduled_actions.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigInvalid, match=r"scheduled_actions\.toml cannot be read"):
        config.load(tmp_path, {})


def test_the_environment_can_set_the_project_directory(tmp_path):
    assert config.load(None, {"SCHEDULED_ACTIONS_PROJECT": str(tmp_path)}).project == tmp_path


def test_the_error_for_a_project_that_is_not_a_directory_names_the_directory(tmp_path):
    with pytest.raises(ConfigInvalid, match=r"SCHEDULED_ACTIONS_PROJECT = .*: must be a directory"):
        config.load(tmp_path / "nowhere", {})


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ("", ()),
        ("too-short", ()),
        (LONG, (LONG,)),
        (f" {LONG}\n", (LONG,)),
        (f"{LONG},{OTHER}", (f"{LONG},{OTHER}", LONG, OTHER)),
        (f"{LONG}, short", (f"{LONG}, short", LONG)),
        (f"{LONG},", (f"{LONG},", LONG)),
        ("short,short2", ()),
        ("short,but,together,long", ("short,but,together,long",)),
        ("schlüsselwörter-ö", ("schlüsselwörter-ö",)),
    ],
)
def test_a_secret_may_contain_two_values_during_rotation_and_short_values_are_not_accepted(value, accepted):
    secret = Secret("CRON_SECRET", value)

    assert secret.accepted == tuple(one.encode() for one in accepted)
    assert secret.is_usable is bool(accepted)


def test_no_representation_contains_a_secret(loaded):
    loaded_config = loaded(CRON_SECRET=LONG, DATABASE_URL=f"postgresql://u:{LONG}@h/d", ADMIN_TOKEN=LONG)

    assert LONG not in repr(loaded_config)
    assert LONG not in repr(loaded_config.cron_secret)
    assert LONG not in f"{loaded_config.database_url}"
    assert LONG not in repr(loaded_config.settings)


def test_the_database_url_is_not_split_at_commas(loaded):
    url = "postgresql://h1,h2/d?options=-csearch_path%3Da,b"

    assert loaded(DATABASE_URL=f" {url}\n").database_url.reveal() == url


@pytest.mark.parametrize(
    ("environ", "is_production"),
    [
        ({}, False),
        ({"VERCEL": "1"}, True),
        ({"SCHEDULED_ACTIONS_ENV": "production"}, True),
        ({"SCHEDULED_ACTIONS_ENV": "development"}, False),
        ({"SCHEDULED_ACTIONS_ENV": "test"}, False),
        ({"SCHEDULED_ACTIONS_ENV": ""}, False),
        ({"SCHEDULED_ACTIONS_ENV": "test", "VERCEL": "1"}, True),
    ],
)
def test_vercel_and_the_environment_production_are_production(loaded, environ, is_production):
    assert loaded(**environ).is_production is is_production


@pytest.mark.parametrize(
    ("value", "near"),
    [
        ("prod", "production"),
        ("Production", "production"),
        ("production ", "production"),
        ("dev", "development"),
        ("testing", "test"),
        ("staging", None),
        ("1", None),
    ],
)
def test_an_unknown_environment_is_rejected_with_the_valid_ones(loaded, value, near):
    with pytest.raises(ConfigInvalid) as rejected:
        loaded(SCHEDULED_ACTIONS_ENV=value)

    hint = "" if near is None else f"; did you mean {near}?"
    assert str(rejected.value) == (
        f"environment: SCHEDULED_ACTIONS_ENV = {value!r}: must be one of production, development, test, or unset{hint}"
    )


def test_the_url_and_keys_of_an_endpoint_come_from_the_environment(loaded):
    keys = [bytes([n]) * 24 for n in (1, 2)]
    texts = ["whsec_" + base64.b64encode(key).decode() for key in keys]
    endpoint = EndpointSection(env_var="CRM_URL", secret_env_var="CRM_SECRET")
    loaded_config = loaded(CRM_URL=" https://crm.example/hook ", CRM_SECRET=f"{texts[0]} , {texts[1]}")

    assert loaded_config.endpoint_url(endpoint) == "https://crm.example/hook"
    assert loaded_config.endpoint_keys(endpoint) == tuple(keys)
    assert loaded_config.endpoint_keys(EndpointSection(env_var="CRM_URL")) == ()
    assert loaded_config.endpoint_url(EndpointSection(env_var="UNSET")) is None


@pytest.mark.parametrize("value", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_not base64 at all!", LONG])
def test_the_error_for_a_missing_or_invalid_endpoint_secret_does_not_contain_it(loaded, value):
    endpoint = EndpointSection(env_var="CRM_URL", secret_env_var="CRM_SECRET")

    problem = "is invalid" if value else "is not configured"
    with pytest.raises(NotConfigured, match=f"CRM_SECRET {problem}: use whsec_ followed by") as refused:
        loaded(CRM_SECRET=value).endpoint_keys(endpoint)

    assert not value or value == "whsec_" or value not in str(refused.value)


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        (
            'private_networks = ["10.0.0.1/8"]',
            "webhooks.private_networks must contain only networks without host bits, such as 10.0.0.0/8",
        ),
        ("private_networks = [8]", "not 8"),
        ('egress_proxy = "http://me:pw@proxy:3128"', "without a login"),
        ('egress_proxy = "socks5://proxy:1"', "must be http://host:port"),
        ('events = { "task" = "no event" }', "webhooks.events must contain only patterns of the form entity:verb"),
        ("[webhooks.events]\n" + "\n".join(f'"task:{n}" = ""' for n in range(101)), "at most 100 event types"),
        ('endpoints = { crm = { env_var = "U", ordering = "lifo" } }', "must be one of none, fifo"),
        ('endpoints = { crm = { env_var = "U", rate_limit = 0 } }', "must be a number greater than 0"),
        ('endpoints = { crm = { env_var = "U", retry = [] } }', "must be a list of 1 to 100 delays"),
        ('endpoints = { crm = { env_var = "U", retry = [5, -1] } }', "delays in seconds, each a number from 0"),
    ],
)
def test_the_error_for_an_invalid_webhook_setting_names_the_setting(loaded, toml, expected):
    with pytest.raises(ConfigInvalid) as caught:
        loaded(f"[webhooks]\n{toml}")

    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "toml",
    [
        'url = "https://me:sesame@app.example"',
        'url = "https://app.example?token=sesame"',
        '[webhooks]\negress_proxy = "http://me:sesame@proxy:3128"',
        '[webhooks.endpoints.crm]\nenv_var = "https://crm.example/sesame"',
        '[webhooks.endpoints.crm]\nenv_var = "CRM"\nsecret_env_var = "whsec+sesame"',
        '[notifications.channels]\nops = "https://hooks.example/sesame"',
    ],
)
def test_the_error_does_not_contain_a_value_that_may_be_a_misplaced_secret(loaded, toml):
    with pytest.raises(ConfigInvalid) as caught:
        loaded(toml)

    assert "sesame" not in str(caught.value)


def test_networks_can_be_listed_in_the_environment(loaded):
    settings = loaded(
        SCHEDULED_ACTIONS_WEBHOOKS_PRIVATE_NETWORKS="10.0.0.0/8, fd00::/8",
        SCHEDULED_ACTIONS_WEBHOOKS_EGRESS_PROXY="http://proxy.example:3128/",
    ).settings.webhooks

    assert settings.private_networks == ("10.0.0.0/8", "fd00::/8")
    assert settings.egress_proxy == "http://proxy.example:3128"


def test_the_encryption_key_may_contain_two_keys_during_rotation(tmp_path):
    assert config.load(tmp_path, {}).encryption_keys == ()
    assert config.load(tmp_path, {"SCHEDULED_ACTIONS_ENCRYPTION_KEY": "new, old"}).encryption_keys == ("new", "old")


def test_each_pattern_of_the_limits_has_its_own_settings_and_the_documented_defaults(loaded):
    toml = """
        [limits."api:*"]
        at_once = 3
        rate = "5 per 10 seconds"
        burst = 20

        [limits.reports]
        rate = "90 per minute"
        across_teams = true

        [limits."*"]
        """

    found = loaded(toml).settings.limits

    assert found == {
        "api:*": Limit(at_once=3, rate=Rate(5, 10.0), burst=20),
        "reports": Limit(rate=Rate(90, 60.0), across_teams=True),
        "*": Limit(at_once=None, rate=None, burst=None, across_teams=False),
    }


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("limits = 3", "limits"),
        ('[limits."a*b"]', "star only at the end"),
        ('[limits.""]', "1 to 255 characters"),
        (f'[limits."{"x" * 256}"]', "1 to 255 characters"),
        ('[limits."api:*"]\nat_once = 0', 'limits."api:*".at_once'),
        ('[limits."api:*"]\nat_once = 10001', 'limits."api:*".at_once'),
        ('[limits."api:*"]\nrate = "fast"', '"100 per minute"'),
        ('[limits."api:*"]\nrate = "0 per minute"', '"100 per minute"'),
        ('[limits."api:*"]\nrate = 100', '"100 per minute"'),
        ('[limits."api:*"]\nburst = 5', "has no effect without a rate"),
        ('[limits."api:*"]\nat_onec = 5', "did you mean"),
        ("\n".join(f"[limits.a{number}]" for number in range(1001)), "at most 1000"),
    ],
)
def test_the_error_for_an_invalid_limit_names_the_setting(loaded, toml, expected):
    with pytest.raises(ConfigInvalid) as caught:
        _ = loaded(toml).settings

    assert expected in str(caught.value)
    assert "limits" in str(caught.value)


def test_executors_have_types_by_name(loaded):
    toml = """
        [executors.media]
        types = ["video:*", "audio:mix"]

        [executors.gpu]
        types = ["audio:mixdown", "model_*"]
        """

    assert loaded(toml).settings.executors == {
        "media": Executor(types=("video:*", "audio:mix")),
        "gpu": Executor(types=("audio:mixdown", "model_*")),
    }


CELERY = 'carrier = "celery"\nurl_env_var = "MEDIA_BROKER_URL"'


def test_an_executor_with_a_broker_has_its_settings(loaded):
    toml = f"""
        [executors.media]
        types = ["video:*"]
        tickets_per_message = 10
        {CELERY}
        """

    [media] = loaded(toml).settings.executors.values()

    assert media == Executor(
        types=("video:*",), carrier="celery", url_env_var="MEDIA_BROKER_URL", tickets_per_message=10
    )
    assert (media.queue, media.ticket_seconds, media.outstanding, media.has_broker) == (None, 300, 1000, True)


def test_the_queue_of_sqs_may_be_a_url(loaded):
    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/media"
    toml = f'[executors.media]\ntypes = ["video:*"]\ncarrier = "sqs"\nqueue = "{url}"'

    [media] = loaded(toml).settings.executors.values()

    assert (media.queue, media.has_broker) == (url, True)


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ('carrier = "kafka"', "executors.media.carrier = 'kafka': must be one of postgres, celery, sqs"),
        ('carrier = "celery"', "executors.media.url_env_var must be the environment variable with the URL"),
        ('carrier = "celery"\nurl_env_var = "redis://host"', "executors.media.url_env_var"),
        ("ticket_seconds = 60", 'executors.media.ticket_seconds applies only with carrier = "celery" or "sqs"'),
        (
            'carrier = "sqs"\nurl_env_var = "MEDIA_URL"',
            'executors.media.url_env_var applies only with carrier = "celery";',
        ),
        (f"{CELERY}\nticket_seconds = 5", "executors.media.ticket_seconds"),
        (f"{CELERY}\noutstanding = 0", "executors.media.outstanding"),
        (f"{CELERY}\ntickets_per_message = 101", "executors.media.tickets_per_message"),
        (f'{CELERY}\nqueue = "a queue"', "must be a name of 1 to 100 letters"),
    ],
)
def test_the_error_for_an_invalid_broker_names_the_setting(loaded, toml, expected):
    with pytest.raises(ConfigInvalid) as caught:
        _ = loaded(f'[executors.media]\ntypes = ["video:*"]\n{toml}').settings

    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("toml", "expected"),
    [
        ("executors = 3", "must be a table of executors"),
        ("[executors.media]", "types"),
        ("[executors.media]\ntypes = []", "1 to 100 action types"),
        (f"[executors.media]\ntypes = {[f'a{number}' for number in range(101)]}", "1 to 100 action types"),
        ('[executors.media]\ntypes = "video:*"', "1 to 100 action types"),
        ('[executors.media]\ntypes = ["vi*deo"]', "a star only at the end"),
        ('[executors.media]\ntypes = [""]', "must contain only action types"),
        ('[executors.media]\ntypes = ["video:render"]\ntype = 1', "did you mean executors.media.types?"),
        ('[executors.media]\ntypes = ["x"]\nconcurrency = 2', "executors.media.concurrency is not a setting; the page"),
        ('[executors.a]\ntypes = ["video:*"]\n[executors.b]\ntypes = ["video:render"]', "overlap"),
        ('[executors.a]\ntypes = ["video:render"]\n[executors.b]\ntypes = ["x", "video:render"]', "overlap"),
        ('[executors.a]\ntypes = ["*"]\n[executors.b]\ntypes = ["video:render"]', "overlap"),
        (
            '[executors.media]\ntypes = ["video:*"]\n[executors.gpu]\ntypes = ["video:encode"]',
            'executors.gpu has "video:encode", which overlaps "video:*" of executors.media; a type',
        ),
    ],
)
def test_the_error_for_an_invalid_executor_names_the_setting(loaded, toml, expected):
    with pytest.raises(ConfigInvalid) as caught:
        _ = loaded(toml).settings

    assert expected in str(caught.value)
    assert "executors" in str(caught.value)
