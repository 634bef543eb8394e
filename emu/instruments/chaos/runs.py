"""Makes a campaign's runs of a test: one without faults, then one for each failure and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.device.faults.parser import dump
from emu.device.faults.plan import LOADED
from emu.instruments.campaign.description import MAX_SECONDS, Description, GuestPart, PeerPart
from emu.instruments.campaign.matrix import NO_PLAN
from emu.instruments.chaos.moments import lasting
from emu.instruments.chaos.sets import ChaosFailure, LinkLayer

WORKLOAD = "test"
DEFAULT_SET = "verbs"
"""Example set of failures."""
DEVICES: dict[LinkLayer, tuple[str, ...]] = {
    "ib": ("connectx6-vf,lid=1,odp=1", "connectx6-vf,lid=2,odp=1"),
    "eth": ("connectx6dx-vf,odp=1", "connectx6dx-vf,odp=1"),
}
"""Functions of the guest by link layer: two ports of one network, for both ends of a connection.

Virtual functions, because the driver makes a cache of memory keys for physical ones: a program's
registrations then need no command that could fail.
"""


@dataclass(frozen=True)
class ChaosTest:
    """The test and its guest; ``link`` names the guest's functions."""

    command: str
    guest: GuestPart
    link: str
    directory: str | None = None
    """Directory that is shared with the guest, unless ``guest`` shares another; None for none."""
    peer: PeerPart | None = None
    """A second guest, for the other end of the connection; None for one guest."""


@dataclass(frozen=True)
class Patience:
    """Time after which a test hangs: ``factor`` times the clean run's, and at least ``floor`` s."""

    factor: float
    floor: float

    def seconds(self, clean: float) -> float:
        """Return the limit in seconds, for a clean run of ``clean`` seconds."""
        return max(self.factor * clean, self.floor)


def clean_run(test: ChaosTest, timeout: float) -> Description:
    """Return the run without faults."""
    return _run(test, NO_PLAN, 0, timeout)


def failure_runs(
    test: ChaosTest, failures: Sequence[ChaosFailure], seeds: Sequence[int], seconds: float
) -> list[Description]:
    """Return a run for each failure and seed.

    Each has a time limit of ``seconds``, and of the time for which its faults last, but at most
    a day.
    """
    return [
        _run(
            test,
            failure.name,
            seed,
            min(seconds + lasting(failure.plan), MAX_SECONDS),
            dump(failure.planned(seed)),
        )
        for failure in failures
        for seed in seeds
    ]


def _run(test: ChaosTest, name: str, seed: int, timeout: float, plan: str = "") -> Description:
    kernel = str(test.guest.value("suite"))
    return Description(
        name=f"{kernel}.{test.link}.{WORKLOAD}.{name}.{seed}",
        kernel=kernel,
        device=test.link,
        workload=WORKLOAD,
        plan_name=name,
        seed=seed,
        command=test.command,
        timeout=timeout,
        plan=plan,
        when=LOADED,
        guest=test.guest,
        directory=test.directory,
        is_observed=True,
        peer=test.peer,
    )
