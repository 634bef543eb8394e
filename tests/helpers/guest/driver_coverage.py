"""Which functions of the stock driver the guest tests make run: ``--driver-coverage FILE``.

Every guest that boots with functions and their driver counts calls until it is stopped. What a
guest counted is lost when it panics, hangs or boots again. The kernel keeps a module that has
counters, so tests that unload the driver fail. With ``--kernel`` each guest whose test chooses no
kernel has that one, so the counts are of one build of the driver.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings

from emu.guests import Guest, GuestError
from emu.guests.kernel.choice import choose
from emu.instruments.coverage import data
from emu.instruments.coverage.session import CoverageSession
from helpers.guest import fault_plans

MODULES = ("mlx5_core", "mlx5_ib")
DRIVER = "/sys/bus/pci/drivers/mlx5_core"
UNBIND = f"for each in {DRIVER}/0*; do echo ${{each##*/}} > {DRIVER}/unbind; done"
BIND = (
    "for each in /sys/bus/pci/devices/*; do grep -qs 0x15b3 $each/vendor"
    " && echo ${each##*/} > /sys/bus/pci/drivers_probe; done; true"
)


@contextlib.contextmanager
def counting(path, kernel, monkeypatch):
    """Guests that start while the body runs count; ``path`` has the sum of those that ended.

    ``kernel``: what ``--kernel`` says, or None for the suite's.
    """
    sessions = {}
    start, stop = Guest.start, Guest.stop

    def start_counting(guest):
        options = guest.options
        if not (options.devices and options.probe):
            start(guest)
            return
        guest.options = dataclasses.replace(_with_kernel(options, kernel), probe=False)
        start(guest)
        session = CoverageSession(guest, MODULES)
        session.start()
        sessions[guest] = session

    def stop_counting(guest):
        session = sessions.pop(guest, None)
        if session is not None and guest.is_running:
            try:
                add(path, session.finish())
            except GuestError as error:
                warnings.warn(f"a guest's coverage is lost: {error}", stacklevel=1)
        stop(guest)

    monkeypatch.setattr(Guest, "start", start_counting)
    monkeypatch.setattr(Guest, "stop", stop_counting)
    monkeypatch.setattr(fault_plans, "UNLOAD", UNBIND)
    monkeypatch.setattr(fault_plans, "LOAD", BIND)
    yield


def _with_kernel(options, word):
    if word is None or options.kernel is not None:
        return options
    chosen = choose([word], options.suite)
    return dataclasses.replace(options, kernel=chosen.kernel, modules=chosen.modules)


def add(path, coverage):
    """Add the counts to those that the file has."""
    parts = [data.load(path)] if path.exists() else []
    data.save(path, data.merge([*parts, coverage]))
