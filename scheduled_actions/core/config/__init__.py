"""Load and check the settings of a project; each setting is a typed field, usually with a default.

Settings come from `scheduled_actions.toml` in the project directory; environment variables override single settings
(`SCHEDULED_ACTIONS_RETRY_BASE_SECONDS` overrides `retry.base_seconds`). Secrets come only from the environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from scheduled_actions.core import signing
from scheduled_actions.core.config import checks
from scheduled_actions.core.errors import ConfigInvalid
from scheduled_actions.core.messages import nearest
from scheduled_actions.core.secret import Secret

PREFIX = "SCHEDULED_ACTIONS_"
TOML_NAME = "scheduled_actions.toml"
#: Environment variables with the prefix that are not settings.
_NOT_SETTINGS = frozenset(
    {"PROJECT", "ENV", "ENV_COMMAND", "EMBEDDED", "ENCRYPTION_KEY", "HEARTBEAT_URL", "TEST_DATABASE_URL"}
)
#: Variable that permits creating an embedded database wherever one is needed.
_EMBEDDED = f"{PREFIX}EMBEDDED"
#: Values of `SCHEDULED_ACTIONS_ENV`; only `production` has an effect.
_ENVIRONMENTS = ("production", "development", "test")
#: Minimum similarity of a suggested environment; low, so that it finds `production` for `prod`.
_ENVIRONMENT_SIMILARITY = 0.4
#: Default of `batch_size` with `database_direct`.
_DIRECT_BATCH_SIZE = 500
#: Tables with names chosen by the user; no environment variable overrides them.
_TABLES = frozenset({"channels", "concurrency_of", "endpoints", "events", "executors", "limits", "queries"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """Settings for the deduplication of actions."""

    #: Default dedup window; 0: by default, actions are not merged.
    window_seconds: float = checks.setting(5, checks.number(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Default retry policy: `base_seconds`, doubled after each further failure, at most `cap_seconds`."""

    base_seconds: float = checks.setting(60, checks.number(0, above=True))
    cap_seconds: float = checks.setting(3600, checks.number(0, above=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSection:
    """A webhook endpoint that `scheduled_actions.toml` declares."""

    #: Environment variable with the URL.
    env_var: str = field(metadata={"check": checks.variable})
    #: Patterns `entity:verb`; `*` matches any characters within its side.
    patterns: tuple[str, ...] = checks.setting(("*:*",), checks.event_patterns)
    enabled: bool = checks.setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    description: str = checks.setting("", checks.text)
    #: Environment variable with the signing secret (`whsec_…`); None: deliveries are not signed.
    secret_env_var: str | None = checks.setting(None, checks.variable)
    #: `fifo`: one delivery at a time per entity, in the order of the events.
    ordering: Literal["none", "fifo"] = checks.setting("none", checks.one_of("none", "fifo"))
    #: Maximum deliveries per second; None: unlimited.
    rate_limit: float | None = checks.setting(None, checks.number(0, 10000, above=True))
    #: Delays between attempts in seconds; None: the delays that Standard Webhooks recommends.
    retry: tuple[float, ...] | None = checks.setting(None, checks.delays)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Settings for the routing and delivery of webhook events."""

    routing: Literal["all", "most_specific"] = checks.setting("all", checks.one_of("all", "most_specific"))
    #: Name of the endpoint that receives the events that match no other endpoint; None: such events are not delivered.
    default_endpoint: str | None = checks.setting(None, checks.text)
    #: Private networks that endpoints in `scheduled_actions.toml` may be in; endpoints in the database are limited to
    #: the public internet.
    private_networks: tuple[str, ...] = checks.setting(("127.0.0.0/8", "::1/128"), checks.networks)
    #: HTTP proxy of all deliveries; None: direct connections. Proxy settings of the environment are ignored.
    egress_proxy: str | None = checks.setting(None, checks.proxy)
    #: File of certificate authorities for endpoints in `scheduled_actions.toml`; None: the public authorities.
    ca_file: str | None = checks.setting(None, checks.text)
    #: Recipient of alerts when an endpoint keeps failing or is disabled.
    alert_email: str | None = checks.setting(None, checks.text)
    #: Descriptions of event types, for people who choose patterns.
    events: dict[str, str] = field(default_factory=dict, metadata={"check": checks.descriptions})
    endpoints: dict[str, EndpointSection] = field(
        default_factory=dict, metadata={"check": partial(checks.named, EndpointSection, "endpoints")}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A read-only query that conditions and `for_each:run` refer to by name."""

    #: One SELECT with parameters as %(name)s; the caller's team is %(team_id)s.
    sql: str = field(metadata={"check": checks.select})
    description: str = checks.setting("", checks.text)
    timeout_seconds: float = checks.setting(5, checks.number(0, 60, above=True))
    #: Whether actions of a team may use the query although it does not contain %(team_id)s.
    shared: bool = checks.setting(False, checks.flag)  # noqa: FBT003 - the default of a field


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Settings for the network access of conditions."""

    #: Private networks that conditions of kind `http` may query, even over plain HTTP.
    private_networks: tuple[str, ...] = checks.setting((), checks.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """SMTP server of `email:send`; the login comes from `SMTP_USERNAME` and `SMTP_PASSWORD`."""

    #: None or empty: mails are caught by `scheduled-actions dev`, and fail anywhere else.
    host: str | None = checks.setting(None, checks.text)
    port: int = checks.setting(25, checks.whole_number(1, 65535))
    #: `none`, `starttls` (required) or `tls`.
    security: Literal["none", "starttls", "tls"] = checks.setting("none", checks.one_of("none", "starttls", "tls"))
    sender: str = checks.setting("scheduled-actions@localhost", checks.text)
    timeout_seconds: float = checks.setting(10, checks.number(0, above=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSettings:
    """Settings for the severity of deadlines, quiet hours and channels."""

    #: Maximum days until the due time of an urgent, high or medium deadline; later deadlines are low.
    urgent_days: float = checks.setting(1, checks.number(0))
    high_days: float = checks.setting(7, checks.number(0))
    medium_days: float = checks.setting(14, checks.number(0))
    #: Default IANA time zone of people.
    timezone: str = checks.setting("UTC", checks.time_zone)
    #: Default quiet hours of people, such as `20:00-08:00`, in each person's time zone; None: no quiet hours.
    quiet_hours: str | None = checks.setting(None, checks.quiet_hours)
    #: Whether urgent notifications are also sent in quiet hours.
    urgent_passes_quiet_hours: bool = checks.setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    #: Seconds during which reminders to one person are collected and combined into one message.
    digest_seconds: float = checks.setting(5, checks.number(0, 86400))
    #: Environment variables with an apprise or webhook URL, by channel name.
    channels: dict[str, str] = field(default_factory=dict, metadata={"check": checks.variables})
    #: Names of channels that tokens of a team may use.
    channels_open_to_teams: tuple[str, ...] = checks.setting((), checks.channel_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teams:
    """Concurrency limits of teams per process; they do not apply to actions without a team."""

    #: Maximum number of running handlers of each team; None: no limit per team.
    concurrency: int | None = checks.setting(None, checks.whole_number(1, 256))
    #: Limits of individual teams by team id; they override `concurrency`.
    concurrency_of: dict[str, int] = field(default_factory=dict, metadata={"check": checks.team_limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The limits of the keys that match a pattern; without any, the keys are known but not limited."""

    #: Maximum number of actions with one key that run at the same time, in all processes.
    at_once: int | None = checks.setting(None, checks.whole_number(1, 10000))
    #: Maximum rate of starts with one key, such as `100 per minute`.
    rate: checks.Rate | None = field(default=None, metadata={"check": checks.rate})
    #: Maximum number of starts at once after a pause; None: the count of the rate.
    burst: int | None = checks.setting(None, checks.whole_number(1, 1000000))
    #: Whether the actions of all teams count together; by default, each team has its own limits.
    across_teams: bool = checks.setting(False, checks.flag)  # noqa: FBT003 - the default of a field


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Workers on other machines that run the actions of some types."""

    #: Action types, and prefixes of types followed by `*`.
    types: tuple[str, ...] = field(metadata={"check": checks.type_patterns})
    #: How actions reach the workers: they claim them from Postgres, or a broker carries tickets to them.
    carrier: str = checks.setting("postgres", checks.one_of("postgres", "celery", "sqs"))
    #: The broker's queue: a name, or for `sqs` also its URL; None: the name of the executor.
    queue: str | None = checks.setting(None, checks.queue_name)
    #: Environment variable with the URL of Celery's broker.
    url_env_var: str | None = checks.setting(None, checks.variable)
    #: Time that a ticket is valid until a worker takes its action over.
    ticket_seconds: int = checks.setting(300, checks.whole_number(10, 86400))
    #: Maximum number of tickets that no worker has taken yet.
    outstanding: int = checks.setting(1000, checks.whole_number(1, 100_000))
    #: Maximum number of tickets in one message of the broker.
    tickets_per_message: int = checks.setting(1, checks.whole_number(1, 100))

    @property
    def has_broker(self) -> bool:
        """Whether a broker carries tickets to the workers."""
        return self.carrier != "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of `scheduled_actions.toml`."""

    #: Base URL of this project (`https://app.example.com`), pinged when a due action is scheduled; None: no pings.
    url: str | None = checks.setting(None, checks.base_url)
    enabled: bool = checks.setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    #: `settings_of` sets another default together with `database_direct`.
    batch_size: int = checks.setting(100, checks.whole_number(1, 1000))
    concurrency: int = checks.setting(8, checks.whole_number(1, 256))
    #: Whether teams share batches fairly.
    fair_by_team: bool = checks.setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    default_timeout_seconds: float = checks.setting(30, checks.number(0, above=True))
    #: Time limit of one call to `@next_occurrence`, `@skip_occurrence`, `@resolve_recipients` or a retry policy.
    function_timeout_seconds: float = checks.setting(5, checks.number(0, 60, above=True))
    max_run_seconds: float = checks.setting(20, checks.number(0, above=True))
    max_duration_seconds: float = checks.setting(55, checks.number(0, above=True))
    linger_seconds: float = checks.setting(0, checks.number(0, 3600))
    max_attempts: int = checks.setting(3, checks.whole_number(1, 1000))
    #: Networks of reverse proxies whose `X-Forwarded-For` is trusted.
    trusted_proxies: tuple[str, ...] = checks.setting((), checks.networks)
    edit_lock_seconds: int = checks.setting(120, checks.whole_number(0, 86400 * 366))
    retention_days: int = checks.setting(7, checks.whole_number(1, 36500))
    retention_failed_days: int = checks.setting(90, checks.whole_number(1, 36500))
    #: Days after which actions whose type no build has a handler for are cancelled; 0: never.
    retention_no_action_days: int = checks.setting(0, checks.whole_number(0, 36500))
    retention_deadlines_days: int = checks.setting(3650, checks.whole_number(1, 36500))
    #: Time limit of each SQL statement of a request or a tick.
    statement_timeout_seconds: float = checks.setting(10, checks.number(0.1, 3600))
    #: Number of request threads of a process; the API and the dashboard leave two of them to health checks and cron.
    #: Under gunicorn, gunicorn's own number of threads applies.
    http_threads: int = checks.setting(8, checks.whole_number(1, 1000))
    database_direct: bool = checks.setting(False, checks.flag)  # noqa: FBT003 - the default of a field
    deduplication: Deduplication = Deduplication()
    retry: Retry = Retry()
    webhooks: Webhooks = Webhooks()
    email: Email = Email()
    teams: Teams = Teams()
    notifications: NotificationSettings = NotificationSettings()
    conditions: Conditions = Conditions()
    #: Limits by pattern: a limit key, or a prefix of keys followed by `*`.
    limits: dict[str, Limit] = field(default_factory=dict, metadata={"check": partial(checks.limit_patterns, Limit)})
    #: Workers that run some action types on other machines, by name.
    executors: dict[str, Executor] = field(
        default_factory=dict, metadata={"check": partial(checks.executors, Executor)}
    )
    #: Queries of conditions and of `for_each`, by name.
    queries: dict[str, Query] = field(default_factory=dict, metadata={"check": partial(checks.named, Query, "queries")})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings and secrets of a project, read once per process."""

    project: Path
    settings: Settings
    environ: Mapping[str, str]
    database_url: Secret
    cron_secret: Secret
    admin_token: Secret

    def __repr__(self) -> str:
        """Return the project directory; the environment contains secrets."""
        return f"Config({self.project})"

    @property
    def is_production(self) -> bool:
        """Whether this is a production environment, in which the embedded database is rejected.

        That is Vercel, or any environment with `SCHEDULED_ACTIONS_ENV=production`; `load` rejects misspellings of it.
        """
        return bool(self.environ.get("VERCEL")) or self.environ.get(f"{PREFIX}ENV", "") == "production"

    @property
    def may_create_database(self) -> bool:
        """Whether an embedded database may be created although no command for development was run."""
        return self.environ.get(_EMBEDDED) == "1"

    @property
    def encryption_keys(self) -> tuple[str, ...]:
        """The keys of stored secrets: the first encrypts, all decrypt. Empty if not configured."""
        return tuple(
            part.strip() for part in self.environ.get(f"{PREFIX}ENCRYPTION_KEY", "").split(",") if part.strip()
        )

    def endpoint_url(self, endpoint: EndpointSection) -> str | None:
        """Return the endpoint's URL without checking it; None if its environment variable is empty or not set."""
        return self.environ.get(endpoint.env_var, "").strip() or None

    def endpoint_keys(self, endpoint: EndpointSection) -> tuple[bytes, ...]:
        """Return the signing keys of an endpoint: none, one, or several during rotation.

        Raises:
            NotConfigured: The environment variable of the secret is not set, or its value is malformed.
        """
        name = endpoint.secret_env_var
        return () if name is None else signing.keys_of(self.environ.get(name, ""), name=name)


def load(project: Path | None, environ: Mapping[str, str]) -> Config:
    """Load the settings and secrets of a project.

    Args:
        project: The directory; None: `SCHEDULED_ACTIONS_PROJECT`, or the working directory.
        environ: Environment variables: secrets, and values that override settings.

    Raises:
        ConfigInvalid: The project is not a directory, `scheduled_actions.toml` cannot be read or is not valid TOML, or
            a setting or variable is unknown, missing or invalid. A missing file is not an error.
    """
    project = (project or Path(environ.get(f"{PREFIX}PROJECT") or ".")).resolve()
    if not project.is_dir():
        raise ConfigInvalid(f"{PREFIX}PROJECT", str(project), "must be a directory", "environment")
    _check_environment_name(environ.get(f"{PREFIX}ENV", ""))
    if environ.get(_EMBEDDED, "") not in {"", "0", "1"}:
        raise ConfigInvalid(_EMBEDDED, environ[_EMBEDDED], "must be 0 or 1", "environment")
    values = _read_toml(project / TOML_NAME)
    _apply_environment(values, environ)
    return Config(
        project=project,
        settings=settings_of(values, environ),
        environ=environ,
        database_url=Secret("DATABASE_URL", environ.get("DATABASE_URL", "").strip()),
        cron_secret=Secret("CRON_SECRET", environ.get("CRON_SECRET", "")),
        admin_token=Secret("ADMIN_TOKEN", environ.get("ADMIN_TOKEN", "")),
    )


def _check_environment_name(name: str) -> None:
    """Raise `ConfigInvalid` for an unknown environment: `prod` would allow the embedded database. Empty means unset."""
    if name and name not in _ENVIRONMENTS:
        near = nearest(name, _ENVIRONMENTS, cutoff=_ENVIRONMENT_SIMILARITY)
        hint = "" if near is None else f"; did you mean {near}?"
        raise ConfigInvalid(
            f"{PREFIX}ENV", name, f"must be one of {', '.join(_ENVIRONMENTS)}, or unset{hint}", "environment"
        )


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid("", None, f"cannot be read: {error}", path.name) from error
    import tomllib  # noqa: PLC0415 - not needed without the file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid("", None, f"is not valid TOML: {error}", path.name) from error


def setting_names() -> dict[str, str]:
    """Return the dotted names of overridable settings by environment variable."""
    overridable = (dotted for dotted in _dotted_names() if dotted.rpartition(".")[2] not in _TABLES)
    return {PREFIX + dotted.replace(".", "_").upper(): dotted for dotted in overridable}


def _dotted_names() -> list[str]:
    """Return the dotted names of all settings."""
    return [
        f"{one.name}.{inner.name}" if inner else one.name
        for one in fields(Settings)
        for inner in (fields(one.default) if is_dataclass(one.default) else (None,))
    ]


def settings_of(values: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Convert parsed TOML to settings.

    Args:
        values: The parsed TOML; missing settings get their defaults. The default of `batch_size` depends on
            `database_direct`.
        environ: Environment variables that may have overridden a value, for error messages.

    Raises:
        ConfigInvalid: A setting is unknown, missing or invalid.
    """
    try:
        settings = checks.section(Settings, values, "")
        if settings.database_direct and "batch_size" not in values:
            settings = replace(settings, batch_size=_DIRECT_BATCH_SIZE)
        _check_together(settings)
    except checks.SettingError as error:
        named = (f"environment variable {name}" for name in environ or {} if setting_names().get(name) == error.key)
        expected = _unknown_setting(error) if error.known else error.expected
        raise ConfigInvalid(error.key, error.value, expected, next(named, TOML_NAME)) from None
    return settings


def _unknown_setting(error: checks.SettingError) -> str:
    table, _, name = error.key.rpartition(".")
    # In a table whose name the user chose, the names of other tables are no likely mistake.
    is_named = any(table.startswith(f"{one}.") for one in _dotted_names() if one.rpartition(".")[2] in _TABLES)
    known = {} if is_named else {dotted.rpartition(".")[2]: dotted for dotted in _dotted_names()}
    known |= {one: f"{table}.{one}" if table else one for one in error.known}
    return checks.unknown_name(name, known, is_in_table=bool(table))


def _check_together(settings: Settings) -> None:
    """Raise `SettingError` for the first setting that contradicts another one."""
    most_seconds = settings.max_duration_seconds
    watched = max(settings.max_run_seconds, settings.linger_seconds) + settings.default_timeout_seconds
    notifications = settings.notifications
    endpoint = settings.webhooks.default_endpoint
    declared = settings.webhooks.endpoints
    for pattern, limit in settings.limits.items():
        if limit.burst is not None and limit.rate is None:
            raise checks.SettingError(f'limits."{pattern}".burst', limit.burst, "has no effect without a rate")
    for is_valid, key, value, expected in (
        (
            not settings.linger_seconds or watched <= most_seconds,
            "max_duration_seconds",
            most_seconds,
            (
                f"must be {watched:g} or more if linger_seconds is set: the greater of linger_seconds "
                f"({settings.linger_seconds:g}) and max_run_seconds ({settings.max_run_seconds:g}), plus "
                f"default_timeout_seconds ({settings.default_timeout_seconds:g})"
            ),
        ),
        (
            settings.max_run_seconds < most_seconds,
            "max_run_seconds",
            settings.max_run_seconds,
            f"must be below max_duration_seconds ({most_seconds:g}), so that the last action can end",
        ),
        (
            notifications.urgent_days <= notifications.high_days <= notifications.medium_days,
            "notifications.high_days",
            notifications.high_days,
            f"must be from urgent_days ({notifications.urgent_days:g}) to medium_days ({notifications.medium_days:g})",
        ),
        (
            endpoint is None or endpoint in declared,
            "webhooks.default_endpoint",
            endpoint,
            f"must be a declared endpoint (declared: {', '.join(sorted(declared)) or 'none'})",
        ),
    ):
        if not is_valid:
            raise checks.SettingError(key, value, expected)


def _apply_environment(values: dict[str, Any], environ: Mapping[str, str]) -> None:
    known = setting_names()
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable.removeprefix(PREFIX) in _NOT_SETTINGS:
            continue
        if variable not in known:
            names = {one: one for one in [*known, *(PREFIX + name for name in _NOT_SETTINGS)]}
            raise ConfigInvalid(variable, None, checks.unknown_name(variable, names), "environment")
        section, _, name = known[variable].rpartition(".")
        target = values.setdefault(section, {}) if section else values
        if isinstance(target, dict):
            target[name] = text
