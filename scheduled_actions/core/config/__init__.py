"""The settings: one place, typed; every error names the key, the value and what would be right.

`scheduled_actions.toml` of the project directory, each key overridden by the environment
(`SCHEDULED_ACTIONS_RETRY_BASE_SECONDS` for `retry.base_seconds`). Secrets come from the environment only.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from scheduled_actions.core.config import checks
from scheduled_actions.core.config import suggestions as meant
from scheduled_actions.core.config.sections import Bad, named, section, setting
from scheduled_actions.core.errors import ConfigInvalid, NotConfigured
from scheduled_actions.core.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "SCHEDULED_ACTIONS_"
TOML_NAME = "scheduled_actions.toml"
#: Environment variables with the prefix that are no settings of the file.
_NOT_SETTINGS = frozenset({"PROJECT", "ENV", "ENV_COMMAND", "ENCRYPTION_KEY", "HEARTBEAT_URL", "TEST_DATABASE_URL"})
#: Tables with names of the user's own, which no variable overrides.
_TABLES = frozenset({"channels", "concurrency_of", "endpoints", "events", "queries"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """How long the same intent is one action."""

    window_seconds: float = setting(5, checks.number(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The default policy: `base_seconds`, doubled after each failure, at most `cap_seconds`."""

    base_seconds: float = setting(60, checks.number(0, above=True))
    cap_seconds: float = setting(3600, checks.number(0, above=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A webhook endpoint set by the operator."""

    #: Environment variable that holds the URL.
    env_var: str = field(metadata={"check": checks.variable})
    #: `entity:verb`, each side may be `*`.
    patterns: tuple[str, ...] = setting(("*:*",), checks.event_patterns)
    enabled: bool = setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    description: str = setting("", checks.text)
    #: Environment variable that holds the signing secret (`whsec_…`); unset: sent unsigned.
    secret_env_var: str | None = setting(None, checks.variable)
    #: `fifo`: one delivery after the other for each entity, in the order of the events.
    ordering: Literal["none", "fifo"] = setting("none", checks.one_of("none", "fifo"))
    #: Deliveries a second, at most; None: as many as go.
    rate_limit: float | None = setting(None, checks.number(0, 10000, above=True))
    #: Delays between attempts, in seconds; None: those of Standard Webhooks.
    retry: tuple[float, ...] | None = setting(None, checks.delays)


def _endpoints(value: Any) -> dict[str, Endpoint]:  # noqa: ANN401 - it is what is judged
    return named(Endpoint, value, "endpoints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhooks:
    """Where events go."""

    routing: Literal["all", "most_specific"] = setting("all", checks.one_of("all", "most_specific"))
    #: Name of the endpoint that gets what nobody else wants.
    default_endpoint: str | None = setting(None, checks.text)
    #: Networks that are no part of the public internet and that the endpoints below may be in all the same; those of
    #: the database never are.
    private_networks: tuple[str, ...] = setting(("127.0.0.0/8", "::1/128"), checks.networks)
    #: Every post goes through this HTTP proxy; None: straight to the receiver. The environment's proxies are ignored.
    egress_proxy: str | None = setting(None, checks.proxy)
    #: File of certificate authorities for the endpoints below; None: the public ones.
    ca_file: str | None = setting(None, checks.text)
    #: Gets a mail when an endpoint keeps failing, and when it is disabled for it.
    alert_email: str | None = setting(None, checks.text)
    #: The event types that there are, with what they tell; for people who choose patterns.
    events: dict[str, str] = field(default_factory=dict, metadata={"check": checks.descriptions})
    endpoints: dict[str, Endpoint] = field(default_factory=dict, metadata={"check": _endpoints})


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A read-only query that conditions ask by its name."""

    #: One select; what callers give stands there as %(name)s, their team as %(team_id)s.
    sql: str = field(metadata={"check": checks.select})
    description: str = setting("", checks.text)
    timeout_seconds: float = setting(5, checks.number(0, 60, above=True))
    #: Its rows belong to all teams: actions of a team may use it although it does not bind %(team_id)s.
    shared: bool = setting(False, checks.flag)  # noqa: FBT003 - the default of a field

    @property
    def is_open_to_teams(self) -> bool:
        """Whether actions of a team may use it."""
        return self.shared or "%(team_id)s" in self.sql


def _queries(value: Any) -> dict[str, Query]:  # noqa: ANN401 - it is what is judged
    return named(Query, value, "queries")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How far conditions reach."""

    #: Networks beside the public internet that conditions of kind `http` may ask, over plain HTTP, too.
    private_networks: tuple[str, ...] = setting((), checks.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """The SMTP server of `email:send`; the login comes from `SMTP_USERNAME` and `SMTP_PASSWORD`."""

    host: str = setting("127.0.0.1", checks.text)
    port: int = setting(25, checks.whole_number(1, 65535))
    #: `none`, `starttls` (required, never fallen back from) or `tls` from the first byte.
    security: Literal["none", "starttls", "tls"] = setting("none", checks.one_of("none", "starttls", "tls"))
    sender: str = setting("scheduled-actions@localhost", checks.text)
    timeout_seconds: float = setting(10, checks.number(0, above=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Notifications:
    """How urgent deadlines are, when people are not disturbed, and ways to them whose addresses are secrets."""

    #: How far away a deadline is at most to be urgent, high or medium; beyond that it is low.
    urgent_days: float = setting(1, checks.number(0))
    high_days: float = setting(7, checks.number(0))
    medium_days: float = setting(14, checks.number(0))
    #: Of people who name no zone of their own.
    timezone: str = setting("UTC", checks.time_zone)
    #: `20:00-08:00` on each person's clock, for those who name no quiet hours of their own; None: never quiet.
    quiet_hours: str | None = setting(None, checks.quiet_hours)
    #: Whether urgent notices are sent in quiet hours, too.
    urgent_passes_quiet_hours: bool = setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    #: How long reminders to one person gather, so that many become one message.
    gather_seconds: float = setting(5, checks.number(0, 86400))
    #: The environment variable that holds an apprise or webhook URL, by the name that recipients use for it.
    channels: dict[str, str] = field(default_factory=dict, metadata={"check": checks.variables})
    #: Names of those that tokens bound to a team may use.
    channels_open_to_teams: tuple[str, ...] = setting((), checks.channel_names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Teams:
    """How many handlers of one team are at work at once in a process; actions without a team have no such limit."""

    #: Of each team; None: as many as there are threads.
    concurrency: int | None = setting(None, checks.whole_number(1, 256))
    #: Of some, by their ids.
    concurrency_of: dict[str, int] = field(default_factory=dict, metadata={"check": checks.team_limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of `scheduled_actions.toml`, defaults filled in."""

    #: Where this project's routes are, for pings right after an action that is due now: `https://app.example.com`.
    url: str | None = setting(None, checks.base_url)
    enabled: bool = setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    batch_size: int = setting(100, checks.whole_number(1, 1000))
    concurrency: int = setting(8, checks.whole_number(1, 256))
    #: Whether one team that fills batches leaves others their turn.
    fair_by_team: bool = setting(True, checks.flag)  # noqa: FBT003 - the default of a field
    default_timeout_seconds: float = setting(30, checks.number(0, above=True))
    #: Of one call of `@next_occurrence`, `@skip_occurrence`, `@resolve_recipients` or a retry policy.
    function_timeout_seconds: float = setting(5, checks.number(0, 60, above=True))
    max_run_seconds: float = setting(20, checks.number(0, above=True))
    max_duration_seconds: float = setting(55, checks.number(0, above=True))
    linger_seconds: float = setting(0, checks.number(0, 3600))
    max_attempts: int = setting(3, checks.whole_number(1, 1000))
    #: Networks of the reverse proxies whose `X-Forwarded-For` names the caller.
    trusted_proxies: tuple[str, ...] = setting((), checks.networks)
    edit_lock_seconds: int = setting(120, checks.whole_number(0, 86400 * 366))
    retention_days: int = setting(7, checks.whole_number(1, 36500))
    retention_failed_days: int = setting(90, checks.whole_number(1, 36500))
    retention_deadlines_days: int = setting(3650, checks.whole_number(1, 36500))
    #: Of each statement of a request or a tick; the server ends it then.
    statement_timeout_seconds: float = setting(10, checks.number(0.1, 3600))
    #: Threads of a process that serve requests: the API and the dashboard leave two of them to health and cron. Where
    #: gunicorn serves, its own number counts.
    http_threads: int = setting(8, checks.whole_number(1, 1000))
    database_direct: bool = setting(False, checks.flag)  # noqa: FBT003 - the default of a field
    deduplication: Deduplication = Deduplication()
    retry: Retry = Retry()
    webhooks: Webhooks = Webhooks()
    email: Email = Email()
    teams: Teams = Teams()
    notifications: Notifications = Notifications()
    conditions: Conditions = Conditions()
    #: The queries of conditions and of `for_each`, by name.
    queries: dict[str, Query] = field(default_factory=dict, metadata={"check": _queries})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A project's settings and secrets, read once per process."""

    project: Path
    settings: Settings
    environ: Mapping[str, str]
    database_url: Secret
    cron_secret: Secret
    admin_token: Secret

    def __repr__(self) -> str:
        """Return the project alone: the environment holds secrets."""
        return f"Config({self.project})"

    @property
    def is_production(self) -> bool:
        """Whether an embedded database would be a mistake."""
        return bool(self.environ.get("VERCEL")) or self.environ.get(f"{PREFIX}ENV", "") == "production"

    @property
    def encryption_keys(self) -> tuple[str, ...]:
        """The keys of what is stored encrypted, the one that encrypts first; none while there is no key."""
        text = self.environ.get(f"{PREFIX}ENCRYPTION_KEY", "")
        return tuple(part.strip() for part in text.split(",") if part.strip())

    def endpoint_url(self, endpoint: Endpoint) -> str | None:
        """Return the endpoint's URL, or None while its variable is unset."""
        return self.environ.get(endpoint.env_var, "").strip() or None

    def endpoint_keys(self, endpoint: Endpoint) -> tuple[bytes, ...]:
        """Return the keys that sign for an endpoint: none, one, or two during rotation.

        Raises:
            NotConfigured: The variable is named but unset, or holds no `whsec_` + base64 of 24 to 64 bytes.
        """
        if endpoint.secret_env_var is None:
            return ()
        expected = "whsec_ followed by the base64 of 24 to 64 random bytes"
        values = [part.strip() for part in self.environ.get(endpoint.secret_env_var, "").split(",") if part.strip()]
        if not values:
            raise NotConfigured(endpoint.secret_env_var, expected)
        return tuple(_signing_key(value, endpoint.secret_env_var, expected) for value in values)


def _signing_key(value: str, name: str, expected: str) -> bytes:
    try:
        key = base64.b64decode(value.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not value.startswith("whsec_") or not 24 <= len(key) <= 64:  # noqa: PLR2004 - the Standard Webhooks bounds
        raise NotConfigured(name, expected)
    return key


def load(project: Path | None, environ: Mapping[str, str]) -> Config:
    """Return the configuration of a project directory.

    Args:
        project: The directory; None: `SCHEDULED_ACTIONS_PROJECT`, or the working directory.
        environ: Where secrets and overrides come from: the process's environment, say.

    Raises:
        ConfigInvalid: A key is unknown or a value cannot be used.
    """
    if project is None:
        project = Path(environ.get(f"{PREFIX}PROJECT") or ".")
    project = project.resolve()
    if not project.is_dir():
        raise ConfigInvalid(f"{PREFIX}PROJECT", str(project), "not a directory", "environment")
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


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid("the file", None, f"cannot be read: {error}", path.name) from error
    import tomllib  # noqa: PLC0415 - a project without the file needs no parser for it

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid("the file", None, f"is not valid TOML: {error}", path.name) from error


def setting_names() -> dict[str, str]:
    """Return every overridable setting's dotted name by its environment variable."""
    overridable = (dotted for dotted in _dotted_names() if dotted.rpartition(".")[2] not in _TABLES)
    return {PREFIX + dotted.replace(".", "_").upper(): dotted for dotted in overridable}


def _dotted_names() -> list[str]:
    """Return every setting's name, with the name of its table."""
    names: list[str] = []
    for one in fields(Settings):
        names += (
            [f"{one.name}.{inner.name}" for inner in fields(one.default)] if is_dataclass(one.default) else [one.name]
        )
    return names


def settings_of(values: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of a file's values.

    Args:
        values: As TOML gives them; what is missing has its default.
        environ: Where values may have come from, for the message.

    Raises:
        ConfigInvalid: A key is unknown, or a value cannot be used.
    """
    try:
        settings = section(Settings, values, "")
        _check_together(settings)
    except Bad as bad:
        by_key = {dotted: name for name, dotted in setting_names().items()}
        variable = by_key.get(bad.key)
        source = f"environment variable {variable}" if variable and variable in (environ or {}) else TOML_NAME
        expected = meant.refusal(bad.key, beside=bad.beside, elsewhere=_dotted_names()) if bad.beside else bad.expected
        raise ConfigInvalid(bad.key, bad.value, expected, source) from None
    return settings


def _check_together(settings: Settings) -> None:
    watched = max(settings.max_run_seconds, settings.linger_seconds) + settings.default_timeout_seconds
    if settings.linger_seconds and settings.max_duration_seconds < watched:
        raise Bad(
            "max_duration_seconds",
            settings.max_duration_seconds,
            f"must be {watched:g} or more: what starts last in linger_seconds ({settings.linger_seconds:g}) may take "
            f"default_timeout_seconds ({settings.default_timeout_seconds:g})",
        )
    if settings.max_run_seconds >= settings.max_duration_seconds:
        expected = (
            f"must be below max_duration_seconds ({settings.max_duration_seconds:g}): what starts last has to end, too"
        )
        raise Bad("max_run_seconds", settings.max_run_seconds, expected)
    notifications = settings.notifications
    if not notifications.urgent_days <= notifications.high_days <= notifications.medium_days:
        expected = (
            f"must be from urgent_days ({notifications.urgent_days:g}) to medium_days ({notifications.medium_days:g})"
        )
        raise Bad("notifications.high_days", notifications.high_days, expected)
    webhooks = settings.webhooks
    if webhooks.default_endpoint is not None and webhooks.default_endpoint not in webhooks.endpoints:
        known = ", ".join(sorted(webhooks.endpoints)) or "none are declared"
        raise Bad("webhooks.default_endpoint", webhooks.default_endpoint, f"is not the name of an endpoint ({known})")


def _apply_environment(values: dict[str, Any], environ: Mapping[str, str]) -> None:
    known = setting_names()
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable.removeprefix(PREFIX) in _NOT_SETTINGS:
            continue
        if variable not in known:
            expected = meant.refused_variable(variable, [*known, *(PREFIX + name for name in _NOT_SETTINGS)])
            raise ConfigInvalid(variable, None, expected, "environment")
        section, _, name = known[variable].rpartition(".")
        target = values.setdefault(section, {}) if section else values
        if isinstance(target, dict):
            target[name] = text
