"""Schedule under one dedup key from many threads; run as a program, print each call as a line of JSON.

python schedule_from_threads.py THREADS CALLS FIRST_NUMBER
"""

from __future__ import annotations

import json
import sys
import threading
import time

from scheduled_actions import schedule_action

KEY = "one key"
_printing = threading.Lock()


def main() -> None:
    """Run the threads; their calls alternate between the dedup modes `append` and `latest`."""
    threads, calls, first = map(int, sys.argv[1:])
    beginning = threading.Barrier(threads)

    def go(number: int) -> None:
        beginning.wait(timeout=30)
        for turn in range(calls):
            call(number + turn, "proof:gather" if turn % 2 else "proof:work")

    running = [threading.Thread(target=go, args=[first + index * calls]) for index in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def call(number: int, action_type: str) -> None:
    """Schedule one action that fails at first; print the result, and when the call began and ended."""
    begun = time.monotonic()
    scheduled = schedule_action(
        action_type,
        {"number": number, "failures": 1},
        dedup_key=KEY,
        dedup_window=60,
        dedup_mode="append" if action_type == "proof:gather" else "latest",
        retry=[0],
    )
    result = {
        "number": number,
        "action_type": action_type,
        "id": str(scheduled.id),
        "deduplicated": scheduled.deduplicated,
        "begun": begun,
        "ended": time.monotonic(),
    }
    with _printing:
        sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
