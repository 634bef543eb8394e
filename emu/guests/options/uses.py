"""The uses of a guest's options, and the reasons why some options are refused.

Each reason is one sentence, shown in every use that refuses the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Use(Enum):
    """A way to start guests; the value is its name for users."""

    RUN = "mlx5emu run"
    BOOT = "mlx5emu boot"
    UP = "mlx5emu up"
    RDMA_TESTS = "mlx5emu rdma-tests"
    REPLAY = "mlx5emu replay"
    MINIMIZE = "mlx5emu minimize"
    FUZZ_RUN = "mlx5emu fuzz run"
    FUZZ_REPLAY = "mlx5emu fuzz replay"
    LAB = "mlx5emu lab up"
    CAMPAIGN = "mlx5emu campaign"
    CHAOS = "mlx5emu chaos"
    PYTEST = "pytest --mlx5-..."


SAME_FILE = "every guest would write the same file"
PLANS = "the faults are those of the record, of the corpus, of [[plan]] or of the set"
TERMINAL = "a guest that has the terminal is not watched"
FROM_START = "a guest that has the terminal always boots from the start"
BOUND = "the driver is rebound for each input"
AMD64 = "tasks are traced on amd64 only"
MEETING = "runs would share the fabric, and change each other's results"

ONE_FILE: Mapping[Use, str] = dict.fromkeys(
    (Use.MINIMIZE, Use.FUZZ_RUN, Use.CAMPAIGN, Use.CHAOS, Use.PYTEST), SAME_FILE
)
"""Reasons for options that name one guest's output file: these uses run many guests."""
OWN_PLANS: Mapping[Use, str] = dict.fromkeys(
    (Use.REPLAY, Use.MINIMIZE, Use.FUZZ_RUN, Use.FUZZ_REPLAY, Use.CAMPAIGN, Use.CHAOS), PLANS
)

GUEST = "guest"
"""Default table of an option in a file."""
OF_SERVER: Mapping[Use, str] = {Use.LAB: "server"}
"""Tables of options of the process that emulates the functions of all guests of a lab."""
