from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time

import pytest

from scheduled_actions.ticks.attempts.handler_threads import HandlerThreads, Job, JobState, run_coroutine

#: A time that no test reaches.
PATIENCE = 10
FAR = float("inf")


def a_job(work=lambda _: "done", *, start_until=FAR, on_late=lambda *_: None):
    return Job(work, start_until=start_until, on_late=on_late)


def wait_until(is_so):
    """Wait until a condition that another thread causes is true."""
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until, "the condition did not become true"
        threading.Event().wait(0.002)


@pytest.fixture
def released():
    """Yield an event that releases hanging handlers, and set it at the end."""
    event = threading.Event()
    yield event
    event.set()


def test_each_job_is_returned_with_its_result():
    runner, results = HandlerThreads(4), queue.SimpleQueue()
    jobs = [a_job(lambda _, n=n: n) for n in range(20)]

    runner.submit(jobs, results)

    assert {results.get(timeout=PATIENCE) for _ in jobs} == set(jobs)
    assert [job.result for job in jobs] == list(range(20))
    assert all(job.state is JobState.ENDED and job.started <= job.ended for job in jobs)


def test_as_many_jobs_run_at_once_as_there_are_threads():
    runner, results, lock = HandlerThreads(3), queue.SimpleQueue(), threading.Lock()
    together, now, most = threading.Barrier(3), 0, 0

    def work(_):
        nonlocal now, most
        with lock:
            now, most = now + 1, max(most, now + 1)
        together.wait(PATIENCE)
        with lock:
            now -= 1

    runner.submit([a_job(work) for _ in range(9)], results)

    for _ in range(9):
        results.get(timeout=PATIENCE)
    assert most == 3


def test_a_job_past_its_start_limit_is_returned_unstarted():
    runner, results = HandlerThreads(1, monotonic=lambda: 20.0), queue.SimpleQueue()
    job = a_job(start_until=20.0)

    runner.submit([job], results)

    assert results.get(timeout=PATIENCE) is job
    assert job.result is None
    assert job.started is None


def test_a_queued_job_that_was_asked_to_stop_is_returned_unstarted():
    runner, results = HandlerThreads(1), queue.SimpleQueue()
    job = a_job()
    job.is_stopped = True

    runner.submit([job], results)

    assert results.get(timeout=PATIENCE) is job
    assert job.result is None


def test_the_late_outcome_of_an_abandoned_job_is_passed_to_on_late(released):
    runner, results, late = HandlerThreads(2), queue.SimpleQueue(), queue.SimpleQueue()
    started = threading.Event()

    def work(job):
        started.set()
        released.wait(PATIENCE)
        return job.is_stopped

    job = a_job(work, on_late=lambda _, outcome: late.put(outcome))
    runner.submit([job], results)
    assert started.wait(PATIENCE)

    assert runner.abandon(job)

    assert (runner.stuck, runner.capacity) == (1, 1)
    released.set()
    assert late.get(timeout=PATIENCE) is True, "the handler was asked to stop"
    wait_until(lambda: runner.capacity == 2)
    assert results.empty()


def test_a_hanging_handler_blocks_no_other_job(released):
    runner, results = HandlerThreads(2), queue.SimpleQueue()

    runner.submit([a_job(lambda _: released.wait(PATIENCE))], results)
    runner.submit([a_job() for _ in range(20)], results)

    assert [results.get(timeout=PATIENCE).result for _ in range(20)] == ["done"] * 20


def test_an_abandoned_job_that_was_queued_never_starts(released):
    runner, results, has_run = HandlerThreads(1), queue.SimpleQueue(), []
    runner.submit([a_job(lambda _: released.wait(PATIENCE))], results)
    waiting = a_job(has_run.append)
    last = a_job()
    runner.submit([waiting, last], results)

    assert runner.abandon(waiting)

    assert runner.stuck == 0, "no thread is stuck in it"
    released.set()
    assert [results.get(timeout=PATIENCE).result, results.get(timeout=PATIENCE)] == [True, last]
    assert has_run == []


def test_a_job_that_has_ended_cannot_be_abandoned():
    runner, results = HandlerThreads(1), queue.SimpleQueue()
    job = a_job()
    runner.submit([job], results)
    results.get(timeout=PATIENCE)

    assert not runner.abandon(job)

    assert runner.stuck == 0


def test_a_job_ends_or_is_abandoned_but_never_both():
    """End and abandon many jobs at the same time: exactly one side wins each."""
    runner, results, late = HandlerThreads(4), queue.SimpleQueue(), queue.SimpleQueue()
    jobs = [a_job(on_late=lambda _, outcome: late.put(outcome)) for _ in range(400)]

    runner.submit(jobs, results)
    given_up = sum(1 for job in jobs if runner.abandon(job))

    wait_until(lambda: runner.stuck == 0 and all(job.state in {JobState.ENDED, JobState.ABANDONED} for job in jobs))
    wait_until(lambda: results.qsize() == len(jobs) - given_up)
    assert late.qsize() <= given_up


def test_context_variables_of_one_handler_are_not_visible_to_the_next():
    runner, results = HandlerThreads(1), queue.SimpleQueue()
    variable = contextvars.ContextVar("variable", default="nothing")

    def work(_):
        found = variable.get()
        variable.set("something")
        return found

    runner.submit([a_job(work), a_job(work)], results)

    assert [results.get(timeout=PATIENCE).result for _ in range(2)] == ["nothing", "nothing"]


def test_context_variables_of_one_coroutine_are_not_visible_to_the_next():
    runner, results = HandlerThreads(1), queue.SimpleQueue()
    variable = contextvars.ContextVar("variable", default="nothing")

    async def handler():
        found = variable.get()
        variable.set("something")
        return found

    def work(job):
        return run_coroutine(job, handler())

    runner.submit([a_job(work), a_job(work)], results)

    assert [results.get(timeout=PATIENCE).result for _ in range(2)] == ["nothing", "nothing"]


def test_coroutines_of_one_thread_share_its_loop():
    runner, results = HandlerThreads(1), queue.SimpleQueue()

    async def handler():
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    def work(job):
        return run_coroutine(job, handler())

    runner.submit([a_job(work), a_job(work)], results)

    loops = [results.get(timeout=PATIENCE).result for _ in range(2)]
    assert loops[0] is loops[1]


@pytest.mark.parametrize("is_abandoned_early", [True, False])
def test_an_abandoned_coroutine_is_cancelled(is_abandoned_early):
    runner, results, late = HandlerThreads(1), queue.SimpleQueue(), queue.SimpleQueue()
    started, may_go = threading.Event(), threading.Event()

    async def handler():
        started.set()
        await asyncio.sleep(PATIENCE)

    def work(job):
        if is_abandoned_early:
            started.set()
            may_go.wait(PATIENCE)
        try:
            run_coroutine(job, handler())
        except asyncio.CancelledError:
            return "cancelled"

    job = a_job(work, on_late=lambda _, outcome: late.put(outcome))
    runner.submit([job], results)
    assert started.wait(PATIENCE)

    runner.abandon(job)
    may_go.set()

    assert late.get(timeout=PATIENCE / 2) == "cancelled"
    wait_until(lambda: runner.stuck == 0)


def test_a_thread_continues_after_a_cancelled_coroutine():
    runner, results, late = HandlerThreads(1), queue.SimpleQueue(), queue.SimpleQueue()
    started = threading.Event()

    async def hang():
        started.set()
        await asyncio.sleep(PATIENCE)

    async def finish():
        await asyncio.sleep(0)
        return "done"

    def work(job):
        try:
            return run_coroutine(job, hang())
        except asyncio.CancelledError:
            return "cancelled"

    hanging = a_job(work, on_late=lambda _, outcome: late.put(outcome))
    runner.submit([hanging], results)
    assert started.wait(PATIENCE)
    runner.abandon(hanging)

    runner.submit([a_job(lambda job: run_coroutine(job, finish()))], results)

    assert results.get(timeout=PATIENCE).result == "done"
    assert late.get(timeout=PATIENCE) == "cancelled"


def test_jobs_submitted_after_a_close_run_although_an_earlier_thread_still_hangs(released):
    runner, results = HandlerThreads(1), queue.SimpleQueue()
    hanging = a_job(lambda _: released.wait(PATIENCE))
    runner.submit([hanging], results)
    wait_until(lambda: hanging.state is JobState.RUNNING)
    runner.close()

    runner.submit([a_job(lambda _: "done")], results)

    assert results.get(timeout=PATIENCE).result == "done"
