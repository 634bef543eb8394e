"""The marker ``mlx5_chaos``: a test for each failure of sets, and the failure in its guest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from emu.host import shipped
from emu.host.user_error import UserError
from emu.instruments.campaign.observer import link_packets
from emu.instruments.chaos.runs import DEFAULT_SET, DEVICES
from emu.instruments.chaos.sets import ChaosFailure, LinkLayer, read_sets, selected
from emu.near import near
from emu.server.control.client import Client, ControlError

if TYPE_CHECKING:
    import pytest

MAX_REPEAT = 1000
_KEYS = ("only", "link", "seed", "repeat")


class MarkedFailure:
    """The failure of a test, for one seed, and the guest's functions for its link layer."""

    def __init__(self, failure: ChaosFailure, seed: int, link: LinkLayer | None) -> None:
        self.name = failure.name
        self.about = failure.about
        self.seed = seed
        self.devices = DEVICES[link or failure.only or "ib"]
        """Functions of a guest for which nothing else names any."""
        self._failure = failure
        self.control: Client | None = None

    def load(self, control: Client) -> None:
        """Load the plan of the failure; its events are counted from now on."""
        from emu.device.faults.parser import dump

        self.control = control
        control.load_plan(dump(self._failure.planned(self.seed)))

    @property
    def has_struck(self) -> bool:
        """Whether a fault has fired with an effect, or a packet passed a link of the plan.

        True for a server that is lost.
        """
        if self.control is None:
            return False
        try:
            return self.control.fired() > 0 or link_packets(self.control) > 0
        except ControlError:
            return True


def failures_of(mark: pytest.Mark) -> list[tuple[str, MarkedFailure]]:
    """Return the failures of a marker, each with the id of its test, for each seed.

    Arguments are sets, files or ``@NAME``, by default ``@verbs``. Raises UserError for an invalid
    argument, and as :func:`read_sets` and :func:`selected` do; OSError for a missing file.
    """
    only, link, seed, repeat = _checked(mark.kwargs)
    paths = [
        shipped.path_of("failure set", str(word)) for word in mark.args or (f"@{DEFAULT_SET}",)
    ]
    failures = selected(read_sets(paths), link, only, _as_argument)
    return [
        (one.name if repeat == 1 else f"{one.name}.{number}", MarkedFailure(one, number, link))
        for one in failures
        for number in range(seed, seed + repeat)
    ]


def _as_argument(name: str, value: str) -> str:
    """Return a choice as the user typed it in a marker."""
    return f"{name}={value!r}"


def _checked(values: Mapping[str, Any]) -> tuple[tuple[str, ...], LinkLayer | None, int, int]:
    """Return the named arguments of a marker. Raises UserError for an unknown or invalid one."""
    for key in values:
        if key not in _KEYS:
            raise UserError(f"no argument {key!r}{near(key, _KEYS)}")
    only, link = values.get("only", ()), values.get("link")
    seed, repeat = values.get("seed", 0), values.get("repeat", 1)
    patterns = (only,) if isinstance(only, str) else only
    if not isinstance(patterns, list | tuple) or not all(isinstance(one, str) for one in patterns):
        raise UserError(f"only: a pattern or a list of patterns is needed, not {only!r}")
    if link not in (None, *DEVICES):
        raise UserError(f"link: {link!r} is not one of {', '.join(DEVICES)}")
    if type(seed) is not int or seed < 0 or type(repeat) is not int or not 0 < repeat <= MAX_REPEAT:
        raise UserError(f"seed is a number from 0 on, repeat one from 1 to {MAX_REPEAT}")
    return tuple(patterns), link, seed, repeat
