"""A real function on fake ports, and a driver that has brought it up."""

import gc
import itertools

from helpers.device.fixtures import *  # noqa: F403

COLLECT_EVERY = 20
_tests = itertools.count(1)


def pytest_collection_finish():
    """What is there now stays: :func:`pytest_runtest_logfinish` need not look at it."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logfinish():
    """Functions and drivers refer to each other, and each pair has megabytes of guest memory.

    Python looks for such garbage by the number of objects, of which these are few. What has
    outlived a test is the process's, and need not be looked at again.
    """
    if next(_tests) % COLLECT_EVERY == 0:
        gc.collect()
        gc.freeze()
