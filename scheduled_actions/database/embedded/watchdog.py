"""Run a Postgres server as a child, and stop it when no process holds a handle on it any more.

`server` runs this file as a program; it imports nothing of the package. A holder that is killed, or that a signal
interrupts while it stops the server, cannot leave the server running, because the kernel releases the holder's lock.

Arguments: the descriptors of `start.lock` and `holders.lock`; the uid and gid of the server, or two empty arguments for
those of this process; the server's program and its arguments.
"""

import fcntl
import os
import signal
import sys
import time
from contextlib import suppress

_POLL_SECONDS = 0.5
#: Maximum time for an orderly stop, during which no process can start or join the server.
_STOP_SECONDS = 15.0


def main(start_lock: int, holders_lock: int, uid: str, gid: str, *command: str) -> None:
    """Run the server; return if it does not stop, otherwise end with it."""
    signal.signal(signal.SIGCHLD, lambda *_: os._exit(0))
    server = os.fork()
    if server == 0:
        try:
            os.close(start_lock)
            os.close(holders_lock)
            if uid:
                os.setgroups([])
                os.setregid(int(gid), int(gid))
                os.setreuid(int(uid), int(uid))
            os.execv(command[0], command)  # noqa: S606 - the server's program
        finally:
            os._exit(127)
    while not (_lock_now(start_lock) and _lock_now(holders_lock)):
        # Released, because a process that starts or joins the server waits for it.
        fcntl.flock(start_lock, fcntl.LOCK_UN)
        time.sleep(_POLL_SECONDS)
    os.kill(server, signal.SIGINT)
    time.sleep(_STOP_SECONDS)


def _lock_now(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
