"""Read what a Redis server has done: commands and CPU time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Self

#: Commands of the measurement itself.
_OWN = ("info", "client|setinfo", "hello", "ping")


class RedisWork(NamedTuple):
    """Commands and CPU seconds since the start of a server, or their difference."""

    commands: int
    seconds: float

    def since(self, before: Self) -> RedisWork:
        """Return the work since another reading."""
        return RedisWork(self.commands - before.commands, self.seconds - before.seconds)


def redis_work(url: str) -> RedisWork:
    """Return the commands and the CPU time of a server since its start."""
    import redis  # noqa: PLC0415 - only two of the benchmarks need it

    with redis.Redis.from_url(url) as client:
        cpu, stats = client.info("cpu"), client.info("commandstats")
    commands = sum(one["calls"] for name, one in stats.items() if name.removeprefix("cmdstat_") not in _OWN)
    return RedisWork(commands, cpu["used_cpu_user"] + cpu["used_cpu_sys"])
