"""Parses the output of perftest's programs and ``ibv_*_pingpong``.

Source: linux-rdma/perftest, src/perftest_parameters.h (the RESULT_LINE and RESULT_FMT macros), and
rdma-core, libibverbs/examples/rc_pingpong.c.
"""

from __future__ import annotations

import math
import re

_COLUMN = re.compile(r"#?((?:BW )?[A-Za-z_]+|99(?:\.9)?% percentile)(?:\[[^\]]*\])?")
_PINGPONG = re.compile(r"^\d+ iters in [\d.]+ seconds = ([\d.]+) usec/iter$", re.MULTILINE)


class OutputError(Exception):
    """Raised when the output lacks the expected value, or contains an impossible number."""


def bandwidth(output: str) -> float:
    """Return MiB per second, the average of a bandwidth test."""
    return _column(output, "BW average")


def message_rate(output: str) -> float:
    """Return thousands of messages per second of a bandwidth test."""
    return _column(output, "MsgRate") * 1000


def latency(output: str) -> float:
    """Return microseconds, the median of a latency test, one way as perftest counts it."""
    return _column(output, "t_typical")


def pingpong(output: str) -> float:
    """Return microseconds for each iteration of a pingpong example."""
    found = _PINGPONG.search(output)
    if found is None:
        raise OutputError(f"no time per iteration in {_tail(output)}")
    return _number(found[1])


def _column(output: str, name: str) -> float:
    """Return the number below ``name``.

    perftest prints one header and, for one size, one line.
    """
    lines = iter(output.splitlines())
    for line in lines:
        names = _COLUMN.findall(line) if line.lstrip().startswith("#bytes") else []
        if name in names:
            values = next(lines, "").split()
            if len(values) != len(names):
                break
            return _number(values[names.index(name)])
    raise OutputError(f"no {name} in {_tail(output)}")


def _number(text: str) -> float:
    """Return a positive number; raise OutputError for others.

    perftest divides by a clock rate of 0 when it fails to measure it.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise OutputError(f"{text} is not a measurement")
    return value


def _tail(output: str) -> str:
    last = output.strip().splitlines()[-1:]
    return repr(last[0]) if last else "an empty output"
