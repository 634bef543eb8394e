"""Texts of a guest without what differs from run to run: addresses, registers, processes, times.

For reports that are compared: two runs of the same work then read the same. What the guest has
really said stays with the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TIME = re.compile(r"(?m)^(?:<\d{1,3}>)?\[ *\d+\.\d+\](?:\[ *[CT]\d+\])? ?")
_WORKER = re.compile(r"\bkworker/\S+")
_REGISTERS = re.compile(
    r"^(?:R(?:[A-D]X|[SD]I|[BS]P|\d\d):|CR2:|[FGCD]S:|DR[0-7]:|PKRU:|EFLAGS:|Code:"
    r"|Modules linked in:|Hardware name:|PGD |\[last unloaded: )"
)
_GUESSED = re.compile(r"^\s*\? ")
_COMM = re.compile(r"\bComm: .{1,32}?(?= (?:Not tainted|Tainted:)|$)")
_INTERRUPT_ENDS = re.compile(r"^\s*</(?:IRQ|NMI|SOFTIRQ)>")
_STACK_ENDS = re.compile(r"^\s*</TASK>|^---\[|^Kernel panic")
_PROCESS = re.compile(
    r"\b((?:CPU|UID|PID|pid|ppid|tgid|uid|CPU#|PPID)[:=# ]{0,2})\d+|(?<=[\w)]:)\d+(?=\])"
)
_HEXADECIMAL = re.compile(
    r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b|(?:[0-9a-f]{1,4}:){3,}[0-9a-f:]*"
)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.:]\d+)*(?:e[+-]?\d+)?(?=[a-zA-Z%/]{0,8}\b|\W|$)")


def normal_text(text: str) -> str:
    """A command's output: every number and every address is a placeholder."""
    plain = _WORKER.sub("kworker", _TIME.sub("", text))
    return _NUMBER.sub("N", _HEXADECIMAL.sub("ADDR", plain))


def normal_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines of a kernel's report: without dumps of registers and code, and guessed frames.

    Nor do they have the stack of what an interrupt has interrupted. Offsets in functions and places
    in sources stay: they are the same in the same kernel.
    """
    is_interrupted = False
    for line in lines:
        plain = _COMM.sub("Comm: NAME", _WORKER.sub("kworker", _TIME.sub("", line)))
        is_interrupted = is_interrupted and not _STACK_ENDS.match(plain)
        if not is_interrupted and not _REGISTERS.match(plain) and not _GUESSED.match(plain):
            yield _PROCESS.sub(lambda match: f"{match[1] or ''}N", _words(plain))
        is_interrupted = is_interrupted or _INTERRUPT_ENDS.match(plain) is not None


def _words(line: str) -> str:
    """A line without addresses; what follows a function's name is an offset, not an address."""
    parts = re.split(r"(\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)", line)
    return "".join(
        part if number % 2 else _HEXADECIMAL.sub("ADDR", part) for number, part in enumerate(parts)
    )
