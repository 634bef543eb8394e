"""Guests for tests: booted when one is wanted, shared, replaced when a test breaks it."""

from __future__ import annotations

import contextlib

import pytest

from emu import doctor
from emu.guest import Guest, GuestOptions
from emu.guest.options import DEFAULT_DEVICE


class Pool:
    """Running guests, by their options."""

    def __init__(self):
        self._guests = {}

    def get(self, options):
        """A guest of these options that takes commands."""
        guest = self._guests.get(options)
        if guest is not None and not guest.is_running:
            guest.stop()
            guest = None
        if guest is None:
            guest = self._guests[options] = Guest(options)
            guest.start()
        return guest

    def close(self):
        with contextlib.ExitStack() as stack:
            for guest in self._guests.values():
                stack.callback(guest.stop)


@pytest.fixture(scope="package")
def lab():
    """The guests of all tests here; skips where the lab cannot run."""
    missing = [check for check in doctor.examine() if check.state is doctor.State.BAD]
    if missing:
        pytest.skip("; ".join(f"{check.part}: {check.found}" for check in missing))
    pool = Pool()
    yield pool
    pool.close()


@pytest.fixture
def guest(lab, suite):
    """A guest with one function, its driver loaded. Tests leave it as they found it."""
    return lab.get(GuestOptions(suite=suite, devices=(DEFAULT_DEVICE,)))


@pytest.fixture
def bare_guest(lab, suite):
    """A guest without any function."""
    return lab.get(GuestOptions(suite=suite, devices=()))


@pytest.fixture
def boot(lab, suite):
    """Boots a guest of the test's own options, stopped at the test's end."""
    with contextlib.ExitStack() as stack:

        def boot_one(**options):
            options = {"suite": suite, "devices": ()} | options
            return stack.enter_context(Guest(GuestOptions(**options)))

        yield boot_one
