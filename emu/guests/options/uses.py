"""Where a guest's options are said, and why some have no meaning there.

A sentence says it once: whoever says such an option is told the same words in every use.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Use(Enum):
    """A way to ask for guests; the value is what users call it."""

    RUN = "mlx5emu run"
    BOOT = "mlx5emu boot"
    UP = "mlx5emu up"
    SUITE = "mlx5emu suite"
    REPLAY = "mlx5emu replay"
    MINIMIZE = "mlx5emu minimize"
    FUZZ_RUN = "mlx5emu fuzz run"
    FUZZ_REPLAY = "mlx5emu fuzz replay"
    LAB = "mlx5emu lab up"
    CAMPAIGN = "mlx5emu campaign"
    PYTEST = "pytest --mlx5-..."


SAME_FILE = "every guest would write the same file"
PLANS = "the faults are those of the record, of the corpus or of [[plan]]"
TERMINAL = "a guest that has the terminal is watched by nobody else"
FROM_START = "a guest that has the terminal boots from the start"
BOUND = "the driver is bound anew for each input"
MEETING = "runs would meet each other there, and change each other's results"

ONE_FILE: Mapping[Use, str] = dict.fromkeys(
    (Use.MINIMIZE, Use.FUZZ_RUN, Use.CAMPAIGN, Use.PYTEST), SAME_FILE
)
"""For options that name a file which a guest writes: many guests come one after the other."""
OWN_PLANS: Mapping[Use, str] = dict.fromkeys(
    (Use.REPLAY, Use.MINIMIZE, Use.FUZZ_RUN, Use.FUZZ_REPLAY, Use.CAMPAIGN), PLANS
)

GUEST = "guest"
"""The table of a file in which an option stands unless it says otherwise."""
OF_SERVER: Mapping[Use, str] = {Use.LAB: "server"}
"""For options of the process that has the functions, which all guests of a lab share."""
