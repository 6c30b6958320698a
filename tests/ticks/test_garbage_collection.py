"""The garbage collector of the package's own processes."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from scheduled_actions.ticks.garbage_collection import collect_garbage_rarely


@pytest.fixture(autouse=True)
def _restored():
    before, is_enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    (gc.enable if is_enabled else gc.disable)()


@pytest.mark.parametrize(("before", "after"), [(700, 10_000), (50_000, 50_000), (0, 0)])
def test_the_threshold_is_raised_but_never_lowered_and_a_disabled_collector_stays_disabled(before, after):
    gc.set_threshold(before, 7, 8)

    collect_garbage_rarely()

    assert gc.get_threshold()[:2] == (after, 7)


def test_cycles_are_still_collected():
    class Node:
        pass

    collect_garbage_rarely()
    node = Node()
    node.itself = node
    del node

    assert gc.collect() > 0


def test_the_wsgi_application_collects_garbage_rarely():
    code = "import gc, scheduled_actions.wsgi; print(gc.get_threshold()[0] >= 10_000 and gc.get_freeze_count() > 0)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "True"
