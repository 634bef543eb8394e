"""Classifies the skip reasons of rdma-core's tests by what is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum


class Wants(Enum):
    """The change that the test needs in order to run."""

    OTHER_DEVICE = "another maker's device"
    GPU = "a GPU"
    SETUP = "another set-up"
    """The other link layer, another mode of the device, credentials, an encrypted guest."""
    DRIVER = "what mlx5 drivers lack"
    CORRECTION = "a correction of the test"
    NOT_BUILT = "what is not built"


_REASONS = (
    (
        Wants.CORRECTION,
        r"^before rdma-core \d+ the test expects"
        r"|^the test takes 8 bytes|^since rdma-core 59 the test opens",
    ),
    (Wants.OTHER_DEVICE, r"\bEFA\b|is not an? mlx5 device|non-mlx5"),
    (Wants.GPU, r"renderD\d|cuda|\bGPU\b"),
    (
        Wants.SETUP,
        r"Crypto login details|crypto engines|wrapped DEK|plaintext DEK|must be passed by the user"
        r"|switchdev mode|ROCE must be disabled|Ethernet link layer|InfiniBand link layer|RoCE"
        r"|All gid indices populated|CC.DMA.bounce|No IPoIB|IP address",
    ),
    (
        Wants.DRIVER,
        r"SRQ resize|Extended QP is not supported|additional access flags 258|not in root",
    ),
)
"""Reasons as regular expressions, case-insensitive; reasons without a match are NOT_BUILT."""


def wants(reason: str) -> Wants:
    """Return the change that a test with this skip reason needs; NOT_BUILT if unknown."""
    for lack, pattern in _REASONS:
        if re.search(pattern, reason, re.IGNORECASE):
            return lack
    return Wants.NOT_BUILT


def count_wants(reasons: Iterable[tuple[str, int]]) -> dict[Wants, int]:
    """Return the nonzero numbers of tests by missing change, in the order of :class:`Wants`."""
    counts: Counter[Wants] = Counter()
    for reason, count in reasons:
        counts[wants(reason)] += count
    return {lack: counts[lack] for lack in Wants if counts[lack]}
