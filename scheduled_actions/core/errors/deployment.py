"""Deployment errors: settings, secrets, database, schema, registry, handlers or functions are unusable (HTTP 503)."""

from dataclasses import field
from typing import ClassVar

from scheduled_actions.core.errors.families import DeploymentError, error_class, short
from scheduled_actions.core.messages import counted


@error_class
class ConfigInvalid(DeploymentError):
    """A setting is unknown, missing or invalid, or its source cannot be read.

    Args:
        key: The dotted name of the setting, the environment variable, or the line; empty: the whole source.
        value: The invalid value; None: the message does not show it.
        expected: What is wrong, or a description of valid values: a phrase with a verb, such as "must be a table".
        source: The file that contains the setting, or the environment variable that sets it.
    """

    key: str
    value: object
    expected: str
    source: str

    def __str__(self) -> str:
        if not self.key:
            return f"{self.source} {self.expected}"
        value = "" if self.value is None else f" = {short(self.value)}:"
        return f"{self.source}: {self.key}{value} {self.expected}"


@error_class
class NotConfigured(DeploymentError):
    """A required secret or address is not set or cannot be used.

    Args:
        name: The environment variable or the setting.
        expected: Advice, such as "set it to …"; never the secret itself.
        problem: A phrase with a verb; the message is "NAME PROBLEM: EXPECTED".
    """

    message = "{name} {problem}: {expected}"
    name: str
    expected: str
    problem: str = field(default="is not configured", kw_only=True)


@error_class
class ExtraMissing(DeploymentError):
    """A library of an optional extra is not installed."""

    message = "{library} is not installed: pip install 'scheduled-actions[{extra}]'"
    library: str
    extra: str


@error_class
class SecretUnreadable(DeploymentError):
    """A stored secret was encrypted with a key that is no longer configured."""

    message = (
        "{what} was encrypted with a key that {variable} does not contain; append that key after a comma, or set the "
        "secret again"
    )
    what: str
    variable: str


@error_class
class DatabaseUnavailable(DeploymentError):
    """Postgres cannot be reached, refused the login, or closed the connection.

    The reason contains no part of the data source name, such as an address, a user or a password.
    """

    message = "the database cannot be reached: {reason}"
    reason: str


@error_class
class DatabaseBusy(DatabaseUnavailable):
    """A statement exceeded `statement_timeout_seconds`, or a conflict with another session ended a tick."""

    message = "the database is busy: {reason}"


@error_class
class TooBusy(DeploymentError):
    """All threads of this process that the API and the dashboard may use are busy."""

    threads: int

    def __str__(self) -> str:
        return (
            f"the API and the dashboard already use {counted(self.threads, 'thread')} of this process, their maximum "
            "(see http_threads): try again in a moment"
        )


@error_class
class EmbeddedPostgresFailed(DeploymentError):
    """The project's own Postgres cannot be found, started or used."""

    message = "embedded Postgres: {problem}; {remedy}"
    problem: str
    remedy: str


@error_class
class LocalServerFailed(DeploymentError):
    """The local server cannot be started."""

    message = "local server: {problem}; {remedy}"
    problem: str
    remedy: str


@error_class
class ProjectUnusable(DeploymentError):
    """A directory is not a project, or a file in it cannot be written."""

    message = "{directory}: {problem}"
    directory: object
    problem: str


@error_class
class SchemaOutdated(DeploymentError):
    """The schema is missing or older than this code, or its SQL functions belong to another version of the code."""

    found: int
    wanted: int

    def __str__(self) -> str:
        if self.found >= self.wanted:
            state = "the SQL functions of the database belong to another version of the code"
        elif self.found:
            state = f"the database schema is at migration {self.found}; this code requires migration {self.wanted}"
        else:
            state = f"this database has no Scheduled Actions tables (migration {self.wanted} is required)"
        return f"{state}: run `scheduled-actions migrate`"


@error_class
class SchemaUnreleased(DeploymentError):
    """The tables were created by an unreleased build and cannot be migrated."""

    message = "{problem}; nothing was changed: {remedy}"
    remedy: ClassVar[str] = (
        "start with an empty schema: a new database in DATABASE_URL, or a new schema that is the only one in the "
        "role's search_path; for the embedded Postgres, stop the server and delete the project's directory "
        ".scheduled_actions"
    )
    migration: str

    def __post_init__(self) -> None:
        self.problem = (
            f"the tables were created by an unreleased build (its migration {self.migration} differs from that of "
            "this code) and cannot be migrated"
        )


@error_class
class SchemaShadowed(DeploymentError):
    """A table or function in another schema shadows one of this package on the search path.

    Args:
        hiding: The tables and functions that shadow those of the package, with their schemas.
        schema: The schema of the package's tables, in quotes where SQL needs them.
    """

    message = "{problem}; nothing was changed: {remedy}"
    hiding: tuple[str, ...]
    schema: str

    def __post_init__(self) -> None:
        self.problem = (
            f"the search path finds {', '.join(self.hiding)} before the object of the same name in schema {self.schema}"
        )
        self.remedy = f"put schema {self.schema} first in the role's search_path, or rename the other object"


@error_class
class RegistryInvalid(DeploymentError):
    """The registry cannot be generated from the handlers, or the generated file cannot be read."""

    message = "{where}: {problem}"
    where: str
    problem: str


@error_class
class HandlerBroken(DeploymentError):
    """A registered handler cannot be imported, is missing from its module, or is not a valid handler."""

    message = 'the handler of "{action_type}" ({reference}) cannot be loaded: {problem}'
    action_type: str
    reference: str
    problem: str


class FunctionBroken(HandlerBroken):
    """A registered project function cannot be imported, is missing or invalid, or is a resolver that failed."""

    message = 'the function "{action_type}" ({reference}) cannot be used: {problem}'


@error_class
class FunctionTimedOut(DeploymentError):
    """A project function exceeded its time limit, or is still running an earlier call."""

    message = 'the function "{name}" {problem}'
    name: str
    problem: str


@error_class
class FunctionFailed(DeploymentError):
    """A project function raised something other than an `Exception`, such as `SystemExit`."""

    name: str
    raised: BaseException

    def __str__(self) -> str:
        # The text of the exception is omitted, because it may contain anything.
        return f'the function "{self.name}" raised {type(self.raised).__name__}'
