import os
import signal
import threading
import time

import pytest

from scheduled_actions.ticks.worker_state import Watchdog


@pytest.fixture
def watchdog() -> Watchdog:
    return Watchdog(time.monotonic)


def test_a_block_that_exceeds_its_limit_triggers_the_guard_once(watchdog):
    acted = threading.Semaphore(0)

    with watchdog.guards(time.monotonic() + 0.01, acted.release):
        assert acted.acquire(timeout=10)

        assert not acted.acquire(timeout=0.05)


def test_a_block_that_ends_in_time_triggers_nothing(watchdog):
    acted = threading.Event()

    with watchdog.guards(time.monotonic() + 0.05, acted.set):
        pass

    assert not acted.wait(0.2)


def test_an_earlier_limit_is_kept_next_to_a_later_one(watchdog):
    early, late = threading.Event(), threading.Event()

    with watchdog.guards(time.monotonic() + 60, late.set), watchdog.guards(time.monotonic() + 0.01, early.set):
        assert early.wait(10)

    assert not late.is_set()


def test_one_thread_serves_one_tick_after_the_other(watchdog):
    threads = set()

    for _ in range(5):
        acted = threading.Event()

        def act(acted=acted):
            threads.add(threading.current_thread())
            acted.set()

        with watchdog.guards(time.monotonic() + 0.001, act):
            assert acted.wait(10)

    assert len(threads) == 1
    assert threads.isdisjoint({threading.current_thread()})


def test_a_forked_process_has_its_own_watchdog_even_if_the_lock_was_held(watchdog):
    with watchdog.guards(time.monotonic() + 60, threading.Event().set):
        pass
    is_held, may_go = threading.Event(), threading.Event()

    def hold():
        with watchdog._changed:  # noqa: SLF001 - as another thread may hold it at the fork
            is_held.set()
            may_go.wait(30)

    threading.Thread(target=hold, daemon=True).start()
    is_held.wait(10)
    child = os.fork()
    if child == 0:
        acted = threading.Event()
        signal.alarm(20)
        with watchdog.guards(time.monotonic() + 0.01, acted.set):
            os._exit(0 if acted.wait(10) else 1)
    may_go.set()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
