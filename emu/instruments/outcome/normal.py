"""Normalizes a guest's texts: addresses, registers, processes and times become placeholders.

Two runs of the same work then have equal reports. The original texts stay with the run.
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
    """Return a command's output with placeholders for all numbers and addresses."""
    plain = _WORKER.sub("kworker", _TIME.sub("", text))
    return _NUMBER.sub("N", _HEXADECIMAL.sub("ADDR", plain))


def normal_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield a report's lines without dumps of registers and code, and without guessed frames.

    The stack of an interrupted context is left out, too. Offsets in functions and source locations
    stay, as they are equal in the same kernel.
    """
    is_interrupted = False
    for line in lines:
        plain = _COMM.sub("Comm: NAME", _WORKER.sub("kworker", _TIME.sub("", line)))
        is_interrupted = is_interrupted and not _STACK_ENDS.match(plain)
        if not is_interrupted and not _REGISTERS.match(plain) and not _GUESSED.match(plain):
            yield _PROCESS.sub(lambda match: f"{match[1] or ''}N", _words(plain))
        is_interrupted = is_interrupted or _INTERRUPT_ENDS.match(plain) is not None


def _words(line: str) -> str:
    """Replace addresses in a line; keep the offset after a function's name."""
    parts = re.split(r"(\+0x[0-9a-f]+(?:/0x[0-9a-f]+)?)", line)
    return "".join(
        part if number % 2 else _HEXADECIMAL.sub("ADDR", part) for number, part in enumerate(parts)
    )
