"""Authenticate API callers by `ADMIN_TOKEN` or a stored token, and throttle wrong tokens."""

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from flask import Request

from scheduled_actions.core import token_generation
from scheduled_actions.core.config import Settings
from scheduled_actions.core.log import log
from scheduled_actions.core.requester import Requester
from scheduled_actions.operations import tokens
from scheduled_actions.outbound.reach import parse_networks
from scheduled_actions.runtime import Runtime
from scheduled_actions.web.api.problems import Forbidden, TooManyAttempts, Unauthorized

#: Number of wrong tokens in quick succession that are answered with 401; further ones are answered with 429.
BURST = 20
#: By how much the count of wrong tokens decreases per second.
PER_SECOND = 1.0
_MAX_ACCOUNTS = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller and its permissions."""

    #: The name in the history of actions, such as `token:NAME`.
    name: str
    role: tokens.Role
    #: The only team that the caller may see; None: all teams.
    team_id: str | None
    #: The id of the stored token; None for `ADMIN_TOKEN`.
    token_id: UUID | None = None

    @property
    def own_name(self) -> str:
        """The name without its prefix: that of the token, or `admin` for `ADMIN_TOKEN`."""
        return self.name.partition(":")[2]

    @property
    def requester(self) -> Requester:
        """The `requester` argument of services: the team of the caller."""
        return Requester(team_id=self.team_id)

    def must_be(self, role: tokens.Role) -> None:
        """Raise unless the caller has the permissions of a role.

        Raises:
            Forbidden: The caller has a lower role.
        """
        if not self.role.includes(role):
            raise Forbidden(f"{self.name} has the role {self.role}, but this request needs the role {role}")

    def must_have_no_team(self, subject: str) -> None:
        """Raise unless the caller may see all teams.

        Args:
            subject: Why a team is not enough, as a clause of the message: "ticks belong to no team".

        Raises:
            Forbidden: The caller is bound to a team.
        """
        if self.team_id is not None:
            raise Forbidden(f"{self.name} is bound to a team, and {subject}; use a token without a team")

    def sees(self, team_id: str | None) -> bool:
        """Return whether the caller may see a team; True for None, which selects all teams that the caller may see."""
        return self.team_id is None or team_id in {None, self.team_id}

    def team_for(self, team_id: str | None) -> str | None:
        """Return the team of a new resource: the caller's team, else the team in the request.

        Raises:
            Forbidden: The caller is bound to another team.
        """
        if not self.sees(team_id):
            raise Forbidden(f"{self.name} is bound to another team than the given team_id: omit team_id")
        return self.team_id or team_id


_INVALID = (
    "unknown token: it may be mistyped or belong to another deployment; list the tokens of this deployment with "
    "`scheduled-actions tokens list`"
)
#: The holder of `ADMIN_TOKEN`.
ADMIN = Caller("api:admin", tokens.Role.ADMIN, None)


class FailedLogins:
    """Counts the recent wrong tokens of this process, per address (IPv6: /64 network) and token prefix. Thread-safe.

    Only wrong tokens are counted and rejected: callers behind one proxy share an address and must not lock each other
    out. Tokens with the same prefix share a count. All strings that do not have the form of a stored token share
    another count: they may be guesses of `ADMIN_TOKEN`.

    Args:
        monotonic: Clock in seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: By network and token prefix: the number of wrong tokens, and the time of the last one.
        self._accounts: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def failed(self, address: str, token: str) -> int:
        """Count a wrong token; return how many seconds to wait: 0 for the first `BURST` in quick succession."""
        account = (_network(address), tokens.hint_of(token))
        with self._lock:
            now = self._monotonic()
            count, at = self._accounts.get(account, (0.0, now))
            left = max(0.0, count - (now - at) * PER_SECOND)
            # The count never exceeds the burst, so that a client waits at most a second after its last wrong token.
            self._accounts[account] = (min(left + 1, BURST), now)
            self._accounts.move_to_end(account)
            while len(self._accounts) > _MAX_ACCOUNTS:
                self._accounts.popitem(last=False)
        return max(0, math.ceil((left - BURST + 1) / PER_SECOND))


def _network(address: str) -> str:
    """Return the key of a client: its IPv4 address, its IPv6 /64 network, or the start of any other string."""
    parsed = _parse(address)
    if parsed is None:
        return address[:64]
    return str(parsed if parsed.version == 4 else ipaddress.ip_network((parsed, 64), strict=False).network_address)  # noqa: PLR2004 - IPv4


def _parse(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address; convert an IPv4-mapped IPv6 address to IPv4. Return None for any other string."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def client_address(request: Request, settings: Settings) -> str:
    """Return the address of the client; an empty string if the server does not provide it.

    Only trusted proxies can give another address in `X-Forwarded-For`.

    Args:
        request: The request.
        settings: The networks of `trusted_proxies`; without any, the header is ignored.
    """
    trusted = parse_networks(settings.trusted_proxies)
    address = request.remote_addr or ""
    # Each proxy appends the address of its client: only the entries of trusted proxies, at the end, are reliable.
    forwarded = ",".join(request.headers.getlist("X-Forwarded-For")).split(",") if trusted else []
    while forwarded and (parsed := _parse(address)) and any(parsed in network for network in trusted):
        previous = forwarded.pop().strip()
        if _parse(previous) is None:
            break
        address = previous
    return address


def check_open(runtime: Runtime) -> None:
    """Raise unless the API is open, which requires `ADMIN_TOKEN`.

    Raises:
        NotConfigured: `ADMIN_TOKEN` is not set or too short; stored tokens cannot be used either.
    """
    runtime.config.admin_token.check_usable("; until then the API is closed")


def caller_of_token(runtime: Runtime, token: str | None, *, address: str, attempts: FailedLogins) -> Caller:
    """Return the holder of a token.

    Args:
        runtime: Holds `ADMIN_TOKEN` and the database.
        token: `ADMIN_TOKEN` or a stored token; None or empty if the request has none.
        address: The address of the client.
        attempts: Counts the recent wrong tokens.

    Raises:
        NotConfigured: `ADMIN_TOKEN` is not set or too short.
        Unauthorized: There is no token, or the token is unknown, revoked or expired.
        TooManyAttempts: The token is wrong, and too many wrong tokens with its prefix came from that address.
        DatabaseUnavailable: Stored tokens cannot be read.
    """
    check_open(runtime)
    if not token:
        raise Unauthorized(
            "send Authorization: Bearer with ADMIN_TOKEN, or with a token created by `scheduled-actions tokens create`"
        )
    # A valid token is accepted even after many wrong ones: callers behind a proxy share an address.
    if runtime.config.admin_token.matches(token):
        return ADMIN
    try:
        return _caller_of_stored_token(runtime, token)
    except Unauthorized as error:
        wait = attempts.failed(address, token)
        if wait:
            raise TooManyAttempts(wait) from None
        log.warning("api.refused address=%s reason=%s", address, error)
        raise


def _caller_of_stored_token(runtime: Runtime, token: str) -> Caller:
    if not tokens.is_one(token):
        raise Unauthorized(_INVALID)
    return caller_of_digest(runtime, token_generation.digest_of(token))


def caller_of_digest(runtime: Runtime, digest: bytes) -> Caller:
    """Return the holder of the stored token with a digest.

    Raises:
        Unauthorized: No stored token has this digest, or the token was revoked or has expired.
        DatabaseUnavailable: The token cannot be read.
    """
    with runtime.database.connection() as connection:
        token = tokens.find_digest(connection, digest)
    if token is None:
        raise Unauthorized(_INVALID)
    if token.revoked_at is not None or token.is_expired:
        raise Unauthorized(f"the token {token.hint}… {'has expired' if token.revoked_at is None else 'was revoked'}")
    return Caller(f"token:{token.name}", token.role, token.team_id, token.id)
