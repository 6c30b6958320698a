"""Schedule actions that are due now or soon from many threads until standard input ends; then print their number.

python schedule_soon.py THREADS SEED
"""

from __future__ import annotations

import os
import random
import sys
import threading
from contextlib import nullcontext
from datetime import timedelta

import psycopg

from scheduled_actions import schedule_action

#: Maximum delay of an action, in seconds.
AHEAD_SECONDS = 2.0
#: Seconds between two calls of one thread.
PAUSES_SECONDS = 0.05, 0.25
#: Number of lock groups that some of the actions share.
GROUPS = 5


def main() -> None:
    """Schedule from all threads until standard input ends."""
    threads, seed = map(int, sys.argv[1:])
    counts = [0] * threads
    is_over = threading.Event()

    def go(number: int) -> None:
        draw = random.Random(f"{seed} {number}")
        while not is_over.wait(draw.uniform(*PAUSES_SECONDS)):
            call(draw)
            counts[number] += 1

    running = [threading.Thread(target=go, args=[number]) for number in range(threads)]
    for thread in running:
        thread.start()
    sys.stdin.read()
    is_over.set()
    for thread in running:
        thread.join()
    sys.stdout.write(f"{sum(counts)}\n")


def call(draw: random.Random) -> None:
    """Schedule one action: due now or soon, with or without a lock group, and inside or outside a transaction."""
    ahead = draw.choice([None, None, timedelta(seconds=draw.uniform(0, AHEAD_SECONDS))])
    lock_group = draw.choice([None, None, f"group {draw.randrange(GROUPS)}"])
    own = psycopg.connect(os.environ["DATABASE_URL"]) if draw.random() < 0.1 else nullcontext()
    with own as connection:
        schedule_action("proof:work", {}, scheduled_at=ahead, lock_group=lock_group, connection=connection)


if __name__ == "__main__":
    main()
