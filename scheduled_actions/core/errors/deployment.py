"""Installations that are not ready."""

from __future__ import annotations

from scheduled_actions.core.errors.families import DeploymentError, short


class ConfigInvalid(DeploymentError):
    """A setting has a value that cannot be used, or a name that means nothing."""

    code = "config_invalid"

    def __init__(self, key: str, value: object, expected: str, source: str) -> None:
        self.key = key
        self.value = value
        self.expected = expected
        self.source = source
        shown = "" if value is None else f" {short(value)}:"
        super().__init__(f"{source}: {key}:{shown} {expected}")


class NotConfigured(DeploymentError):
    """A secret or an address that the request needs is unset or too short."""

    code = "not_configured"

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        self.expected = expected
        super().__init__(f"{name} is not configured: {expected}")


class ExtraMissing(DeploymentError):
    """A library that this needs comes with an extra of the package, and is not installed."""

    code = "extra_missing"

    def __init__(self, library: str, extra: str) -> None:
        self.library = library
        self.extra = extra
        super().__init__(f"{library} is not installed: pip install 'scheduled-actions[{extra}]'")


class SecretUnreadable(DeploymentError):
    """A stored secret was encrypted with a key that is not there any more."""

    code = "secret_unreadable"

    def __init__(self, what: str, variable: str) -> None:
        self.what = what
        self.variable = variable
        super().__init__(
            f"{what} was encrypted with another key than {variable} holds; add that key after a comma, or set it anew"
        )


class DatabaseUnavailable(DeploymentError):
    """Postgres cannot be reached, refused the login, or ended the connection.

    The reason is a fact of the driver without addresses, names or passwords: a data source name is never repeated.
    """

    code = "database_unavailable"

    def __init__(self, reason: str, *, says: str = "the database cannot be reached") -> None:
        self.reason = reason
        super().__init__(f"{says}: {reason}")


class DatabaseBusy(DatabaseUnavailable):
    """A statement was not finished within `statement_timeout_seconds`, or a tick did not get a lock that it needs."""

    code = "database_busy"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, says="the database is busy")


class TooBusy(DeploymentError):
    """All threads of this process that the API and the dashboard may use are at work."""

    code = "too_busy"

    def __init__(self, threads: int) -> None:
        self.threads = threads
        super().__init__(
            f"the API and the dashboard use all {threads} thread{'' if threads == 1 else 's'} of this process that "
            "they may (http_threads): try again in a moment"
        )


class EmbeddedPostgresFailed(DeploymentError):
    """The project's own Postgres could not be found, started or used."""

    code = "embedded_postgres_failed"

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"embedded Postgres: {problem}; {remedy}")


class LocalServerFailed(DeploymentError):
    """The local server could not be started."""

    code = "local_server_failed"

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"the local server: {problem}; {remedy}")


class ProjectUnusable(DeploymentError):
    """A directory is no project, or nothing can be written there."""

    code = "project_unusable"

    def __init__(self, directory: object, problem: str) -> None:
        self.directory = directory
        self.problem = problem
        super().__init__(f"{directory}: {problem}")


class SchemaOutdated(DeploymentError):
    """The schema is missing, or older than this code."""

    code = "schema_outdated"

    def __init__(self, found: int, wanted: int) -> None:
        self.found = found
        self.wanted = wanted
        if found < wanted:
            state = f"at migration {found}" if found else "without this package's tables"
            difference = f"the database is {state}, this code needs {wanted}"
        else:
            difference = "the database has other versions of the SQL functions than this code"
        super().__init__(f"{difference}: run `scheduled-actions migrate`")


class SchemaUnreleased(SchemaOutdated):
    """The tables were made by a build that was never released; they cannot be brought up to date."""

    code = "schema_unreleased"
    remedy = (
        "start with an empty schema: a new database in DATABASE_URL, or a new schema that is the only one in the "
        "role's search_path; for the embedded Postgres, stop the server and remove the project's directory "
        ".scheduled_actions"
    )

    def __init__(self, migration: str) -> None:
        self.migration = migration
        self.problem = (
            "the tables were made by a build that was never released (this code has another migration than "
            f"{migration}) and cannot be brought up to date"
        )
        DeploymentError.__init__(self, f"{self.problem}; nothing was changed: {self.remedy}")


class SchemaHidden(DeploymentError):
    """A table or function in another schema hides one of this package, because the search path names that schema first.

    Args:
        hiding: What hides ours, with its schema.
        schema: The schema of the package's tables, in quotes where SQL needs them.
    """

    code = "schema_hidden"

    def __init__(self, hiding: tuple[str, ...], schema: str) -> None:
        self.hiding = hiding
        self.schema = schema
        self.problem = f"the search path finds {', '.join(hiding)} before what has the same name in schema {schema}"
        self.remedy = f"name schema {schema} first in the role's search_path, or rename the other"
        super().__init__(f"{self.problem}; nothing was changed: {self.remedy}")


class RegistryInvalid(DeploymentError):
    """The handlers cannot be made into a registry, or the generated one cannot be read."""

    code = "registry_invalid"

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


class HandlerBroken(DeploymentError):
    """A handler is registered, but its module cannot be imported or holds no such function."""

    code = "handler_broken"
    #: What is broken, before its name.
    what = "handler of"

    def __init__(self, action_type: str, reference: str, problem: str) -> None:
        self.action_type = action_type
        self.reference = reference
        self.problem = problem
        super().__init__(f'the {self.what} "{action_type}" ({reference}) cannot be loaded: {problem}')


class FunctionBroken(HandlerBroken):
    """A function of the project is registered, but its module cannot be imported or holds no such function."""

    what = "function"


class FunctionTimedOut(DeploymentError):
    """A function of the project did not return within its time limit, or is still at work on an earlier call."""

    code = "function_timed_out"

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f'the function "{name}" {problem}')


class FunctionFailed(DeploymentError):
    """A function of the project raised something other than an `Exception`, such as `SystemExit`."""

    code = "function_failed"

    def __init__(self, name: str, raised: BaseException) -> None:
        self.name = name
        # Its text may be anything, and do anything.
        super().__init__(f'the function "{name}" raised {type(raised).__name__}')
