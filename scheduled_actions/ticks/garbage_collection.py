"""Adapt Python's garbage collector to processes that mostly run ticks."""

import gc

#: The collector runs after this number of new objects that have not been freed; Python's default is 700 or 2,000.
_NEW_OBJECTS = 10_000


def collect_garbage_rarely() -> None:
    """Let the garbage collector run less often, and not examine the objects that exist now.

    For the processes of this package, after their imports. A tick holds up to 500 claimed actions at a time, each of
    several objects without cycles, which are freed without the collector. With the default threshold, it examines them
    many times, and after every 10,000 actions all objects of the process: a fifth of the CPU time of a tick.

    Does nothing if the collector is disabled, and does not lower its threshold.
    """
    first, *others = gc.get_threshold()
    if not gc.isenabled() or first == 0:
        return
    gc.set_threshold(max(first, _NEW_OBJECTS), *others)
    gc.freeze()
