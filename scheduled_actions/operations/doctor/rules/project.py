"""Checks of a project: settings, secrets, endpoints, threads, registry, handlers, and work that needs attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from scheduled_actions.conditions.rules.plan import format_cycle
from scheduled_actions.core.messages import counted, listed
from scheduled_actions.operations.doctor.rules import FAULT, WARNING, Check, Level, first_problem, in_words

_BUILD = "run `scheduled-actions registry build`"
#: If an action has been due for longer than this, ticks do not keep up.
_LATE = timedelta(minutes=5)
#: Maximum value of a count.
COUNTED = 10_000
#: Maximum number of names listed in one check.
_NAMES_MOST = 5
#: The remedy for actions that wait for one another.
BREAK_CYCLE = (
    "change or remove `after` of one of them: `scheduled-actions actions update ID --after OTHER`, or `--reset after`"
)


def settings(problem: str | None, *, is_enabled: bool = True) -> Check:
    """Return a fault for invalid settings, a warning if they disable processing.

    Args:
        problem: The first invalid setting and the reason; None if the settings are valid.
        is_enabled: The setting `enabled`.
    """
    return first_problem(
        "settings",
        (problem, FAULT, str(problem), "correct the setting; checks that depend on the settings were omitted"),
        (
            not is_enabled,
            WARNING,
            "enabled is false: ticks answer but process nothing",
            "set enabled = true to resume processing",
        ),
        ok="valid",
    )


def secret(variable: str, *, opens: str, is_set: bool, is_usable: bool, is_optional: bool) -> Check:
    """Return a fault if a secret is unusable or a required one is missing, a warning if an optional one is missing.

    Args:
        variable: The environment variable of the secret.
        opens: What the secret gives access to, for the message.
        is_set: Whether the variable is not empty.
        is_usable: Whether the secret is long enough.
        is_optional: Whether the project works without the secret.
    """
    remedy, missing = f"set {variable} to at least 16 random characters", WARNING if is_optional else FAULT
    return first_problem(
        variable.lower(),
        (is_set and not is_usable, FAULT, f"{variable} is too short, so {opens} is closed", remedy),
        (not is_usable, missing, f"{variable} is not set, so {opens} is closed", remedy),
        ok=f"{variable} is set",
    )


def endpoint(name: str, *, problem: str | None, exposure: str | None = None, is_signed: bool) -> Check:
    """Return a fault if the URL or the secret of an endpoint cannot be used, a warning if it has no secret.

    Args:
        name: The name of the endpoint in scheduled_actions.toml.
        problem: Why the URL or the secret cannot be used, without their values; None if both can.
        exposure: Why production disables the endpoint; None if it does not.
        is_signed: Whether the endpoint has a secret.
    """
    return first_problem(
        f"endpoint:{name}",
        (problem, FAULT, str(problem), "correct that variable, or set enabled = false for the endpoint"),
        (
            exposure,
            FAULT,
            f"disabled, and its deliveries are skipped: {exposure}",
            (
                "set the variable to an https URL, or add the network of its host to webhooks.private_networks; then "
                f"`scheduled-actions webhooks deliveries recover --endpoint {name} --from WHEN` sends what was skipped"
            ),
        ),
        (
            not is_signed,
            WARNING,
            "deliveries are not signed: a receiver cannot verify the sender",
            "set secret_env_var to the name of a variable, and the variable to a whsec_ secret",
        ),
        ok="has a URL and a secret",
    )


def email(host: str | None, *, is_caught: bool) -> Check:
    """Return how mails are sent; a project that sends none needs no server.

    Args:
        host: The setting `email.host`.
        is_caught: Whether a running `dev` catches mails.
    """
    if host:
        return Check("email", Level.OK, f"mails are sent through {host}")
    if is_caught:
        return Check("email", Level.OK, "mails are caught by `scheduled-actions dev`")
    return Check("email", Level.OK, "no server (optional): mails fail until host is set under [email]")


def threads(*, stuck: int, concurrency: int, is_stopping: bool = False) -> Check:
    """Return a fault if this process can start no more handlers, a warning if some threads are stuck."""
    in_handlers = "stuck in handlers that never returned"
    return first_problem(
        "threads",
        (stuck >= concurrency, FAULT, f"all handler threads are {in_handlers}", "restart the process"),
        (is_stopping, FAULT, "the process is stopping and starts nothing", "send requests to another process"),
        (
            stuck,
            WARNING,
            f"{stuck} of {concurrency} handler threads are {in_handlers}",
            "restart the process, and add timeouts to the blocking calls of those handlers",
        ),
        ok=f"{concurrency} handler threads",
    )


def registry(types: int = 0, *, problem: str | None = None, is_fresh: bool | None = None) -> Check:
    """Return a fault if the generated registry is missing, broken or stale.

    Args:
        types: Number of action types in the registry.
        problem: Why the registry or the source of the handlers cannot be read; None if both can.
        is_fresh: Whether the registry matches the source; None: they were not compared.
    """
    count = counted(types, "action type")
    return first_problem(
        "registry",
        (problem, FAULT, str(problem), _BUILD),
        (is_fresh is False, FAULT, "handlers/_registry.py does not match handlers/", _BUILD),
        (not types, WARNING, count, f"write a handler in handlers/, then {_BUILD}"),
        ok=f"{count}, up to date" if is_fresh else count,
    )


def handlers(
    count: int,
    *,
    functions: int = 0,
    broken: Sequence[str] = (),
    too_long: Mapping[str, float] | None = None,
    unmatched: Mapping[str, str] | None = None,
) -> Check:
    """Return a fault if a handler or function cannot be imported, a warning if one can never start.

    Args:
        count: Number of handlers.
        functions: Number of other project functions.
        broken: For each handler or function that cannot be imported, a sentence with the reason.
        too_long: Timeouts that do not fit into a tick, in seconds, by action type.
        unmatched: Limit keys that match no pattern of the settings, by action type.
    """
    named = ", ".join(f"{name} ({seconds:g} s)" for name, seconds in (too_long or {}).items())
    limited = listed([f"{name} ({limit})" for name, limit in (unmatched or {}).items()], most=_NAMES_MOST)
    return first_problem(
        "handlers",
        (broken, FAULT, "; ".join(broken), "fix these modules: actions that need them fail"),
        (
            named,
            WARNING,
            f"never started, because their timeout does not fit into a tick: {named}",
            (
                "raise max_duration_seconds and the host's request limit, or lower timeout_seconds (or "
                "default_timeout_seconds) to two seconds less than max_duration_seconds"
            ),
        ),
        (
            unmatched,
            WARNING,
            f"never started, because their limit matches no pattern of [limits]: {limited}",
            "add a pattern to scheduled_actions.toml, or correct the limit of the handler",
        ),
        ok=" and ".join([counted(count, "handler"), *([counted(functions, "function")] if functions else [])])
        + " can be imported",
    )


def backlog(*, due: int, oldest: timedelta | None, is_missing: bool) -> Check:
    """Return a warning if an action has been due for more than five minutes although ticks run.

    Args:
        due: Number of due actions; exact below `COUNTED`.
        oldest: How long the oldest due action has been due; None: nothing is due.
        is_missing: Whether no cron seems to ping, which another check reports.
    """
    if oldest is None or not due:
        return Check("backlog", Level.OK, "nothing is due")
    detail = f"{_limited(due)} due, the oldest for {in_words(oldest)}"
    remedy = (
        "`scheduled-actions explain ID` shows why an action waits; if ticks are just slow, raise concurrency or "
        "max_run_seconds, or ping more often"
    )
    return first_problem(
        "backlog",
        (oldest > _LATE and not is_missing, WARNING, f"{detail}: ticks do not keep up", remedy),
        ok=detail,
    )


def doubled_schedules(action_types: Sequence[str]) -> Check:
    """Return a warning if a call without a name created the same schedule more than once.

    Args:
        action_types: The types of these schedules, one for each group of equal schedules.
    """
    types = list(dict.fromkeys(action_types))
    return first_problem(
        "doubled_schedules",
        (
            types,
            WARNING,
            f"equal active schedules without a name run several times: {listed(types, most=_NAMES_MOST)}",
            (
                f'pass a name to schedule_recurring_action, such as name="{types[0] if types else ""}", and delete the '
                "others: `scheduled-actions schedules list` shows their ids"
            ),
        ),
        ok="no two schedules without a name are equal",
    )


def attention(
    *,
    failed: int,
    unhandled: Sequence[str],
    returned_failures: Sequence[str],
    schedules: Sequence[str],
    held_up: Sequence[tuple[str, str, str, timedelta]],
    deadlines: Sequence[str],
    endpoints: Sequence[str],
    cycles: Sequence[Sequence[UUID]],
) -> list[Check]:
    """Return a warning for each kind of work that needs a person's attention.

    Args:
        failed: Actions that failed in the last day, counted to `COUNTED`.
        unhandled: Types of stored actions that wait for a build with their handler.
        returned_failures: Types of actions that completed lately with a result that reports a failure.
        schedules: Names of the schedules that were paused after failures, or with a call from SQL that was refused
            or is not applied.
        held_up: Schedules with `requires_previous` whose previous occurrence failed or was cancelled: the name of the
            schedule, the id and the status of that action, and how long ago it ended.
        deadlines: Names of the deadlines with a call from SQL that was refused, or that no tick has applied yet.
        endpoints: Ids of the webhook endpoints that were disabled after failures.
        cycles: Actions that wait for one another, so that none of them ever runs.
    """
    return [
        first_problem(
            "failed_actions",
            (
                failed,
                WARNING,
                f"{_limited(failed)} failed in the last day",
                "`scheduled-actions actions list --status failed` shows why; `actions retry` runs them again",
            ),
            ok="none failed in the last day",
        ),
        first_problem(
            "returned_failures",
            (
                returned_failures,
                WARNING,
                'completed in the last day although their handler returned {"success": false}: '
                + listed(returned_failures, most=_NAMES_MOST),
                "raise Fail or any other exception in these handlers: an action whose handler returns has succeeded",
            ),
            ok="none of the latest actions completed with a result that reports a failure",
        ),
        first_problem(
            "no_action",
            (
                unhandled,
                WARNING,
                "the running build has no handler for stored actions of these types: "
                + listed(unhandled, most=_NAMES_MOST),
                (
                    "deploy a build with these handlers, which then runs the actions; or cancel the actions: "
                    "`scheduled-actions actions cancel --status no_action`"
                ),
            ),
            ok="no action waits for a handler",
        ),
        first_problem(
            "schedules",
            (
                schedules,
                WARNING,
                "paused after failures, or a call of schedule_recurring_action from SQL was refused or is not applied: "
                + listed(schedules, most=_NAMES_MOST),
                (
                    "`scheduled-actions schedules show REF` shows why; fix the cause, then run `schedules resume REF`, "
                    "or call the SQL function again"
                ),
            ),
            ok="no schedule is paused after failures, and every call of schedule_recurring_action from SQL is applied",
        ),
        first_problem(
            "held_up_schedules",
            (
                held_up,
                WARNING,
                "skip every occurrence until the previous one has completed (requires_previous): "
                + listed(
                    [f"{name} (action {id_}, {status} {in_words(age)} ago)" for name, id_, status, age in held_up],
                    most=_NAMES_MOST,
                ),
                "fix the cause, then run `scheduled-actions actions retry ID` for that action",
            ),
            ok="no schedule waits for a failed occurrence",
        ),
        first_problem(
            "deadlines",
            (
                deadlines,
                WARNING,
                f"a call of set_deadline from SQL was refused or is not applied: {listed(deadlines, most=_NAMES_MOST)}",
                "`scheduled-actions deadlines show REF` has the reason in its history; call the function again",
            ),
            ok="every call of set_deadline from SQL is applied",
        ),
        first_problem(
            "webhook_endpoints",
            (
                endpoints,
                WARNING,
                f"disabled after failures: {listed(endpoints, most=_NAMES_MOST)}",
                (
                    "once the receiver works again, run `scheduled-actions webhooks endpoints update ID --enable`, "
                    "then `webhooks deliveries recover --from WHEN` to resend the failed deliveries"
                ),
            ),
            ok="no endpoint is disabled after failures",
        ),
        first_problem(
            "waiting_cycles",
            (
                cycles,
                WARNING,
                "these actions wait for one another and never run: "
                + listed([format_cycle(one) for one in cycles], most=_NAMES_MOST),
                BREAK_CYCLE,
            ),
            ok="no actions wait for one another",
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPath:
    """A path in the filter of a webhook endpoint that none of the recent events has."""

    #: The id of the endpoint.
    endpoint: str
    path: str
    #: Number of recent events that the endpoint's patterns match.
    events: int
    #: The most similar path of these events; None if no path is similar.
    near: str | None


def webhook_filters(missing: Sequence[MissingPath]) -> Check:
    """Return a warning if filters of webhook endpoints have paths that no recent event has."""
    found = [
        f"{one.endpoint}: {one.path} ({counted(one.events, 'event')})"
        + (f', did you mean "{one.near}"?' if one.near else "")
        for one in missing
    ]
    return first_problem(
        "webhook_filters",
        (
            found,
            WARNING,
            "filters have paths that none of the latest matching events has: " + listed(found, most=_NAMES_MOST),
            (
                "correct the path with `scheduled-actions webhooks endpoints update ID --filter JSON`, unless such "
                "events are still to come"
            ),
        ),
        ok="no filter has a path that the latest matching events lack",
    )


def _limited(count: int) -> str:
    return f"{count:,}+ actions" if count >= COUNTED else counted(count, "action")
