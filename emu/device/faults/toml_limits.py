"""Limits for the text of a plan, checked before it is parsed.

A TOML parser takes time quadratic in the components of a key and in the depth of its brackets.
Every walk through the values recurses to that depth. No plan needs either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import TOKENS_PER_PORTION

MAX_DEPTH = 16
"""Maximum nesting of brackets."""

MAX_BITS = 4096
"""Maximum bits of a number. Python refuses to print much larger ones."""

MAX_PARTS = 16
"""Maximum components of a key: ``match.cq_context.log_cq_size`` has three."""

MAX_TOKENS = 3000
MAX_PIECE = 32 << 10
"""Maximum tokens and characters of a rule with its tables, and of the text before the first
rule.
"""

_HEADER = re.compile(r"\[\[[ \t]*([A-Za-z0-9_-]+)[ \t]*\]\]")

# Every alternative consumes the text that it examines, an unclosed string up to the end: linear
# time.
_TOKEN = re.compile(
    r"""
    (?P<string> "{3} (?: [^\\"]+ | \\(?:[\s\S]|\Z) | "(?!"") )* (?: "{3,5} | \Z )
      | '{3} (?: [^']+ | '(?!'') )* (?: '{3,5} | \Z )
      | " (?: [^"\\\n]+ | \\. )* "?
      | ' [^'\n]* '? )
    | (?P<comment> \#[^\n]* )
    | (?P<open> [\[{] )
    | (?P<close> [\]}] )
    | (?P<dot> \. )
    | (?P<word> [^\s\[\]{}.,="'#]+ )
    | (?P<end> [\n,=] )
    """,
    re.VERBOSE,
)


class TooComplexError(ValueError):
    """A text beyond the limits of plans; ``line`` is the line number."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


def cuts(text: str) -> Portions[list[int]]:
    """Return the offsets at which a TOML text can be cut for parsing: 0, and every ``[[name]]``.

    Raises TooComplexError for a text that is nested too deep, has a key of too many components or a
    rule that is too long. The syntax is not checked. A generator, which yields after each step.
    """
    offsets = [0]
    depth = dots = parts = 0
    is_fresh = True
    for count, token in enumerate(_TOKEN.finditer(text), 1):
        if not count % TOKENS_PER_PORTION:
            yield
        kind, start = token.lastgroup, token.start()
        parts += 1
        if kind == "dot":
            dots += 1
        elif kind == "open":
            if is_fresh and not depth and _HEADER.match(text, start):
                offsets.append(start)
                parts = 0
            depth += 1
            dots = 0
        elif kind == "close":
            depth = max(depth - 1, 0)
            dots = 0
        elif kind == "end":
            dots = 0
        is_fresh = token[0] == "\n" or (is_fresh and kind == "comment")
        why = ""
        if depth > MAX_DEPTH:
            why = "nested too deep"
        elif dots >= MAX_PARTS:
            why = "a key of too many parts"
        elif parts > MAX_TOKENS or token.end() - offsets[-1] > MAX_PIECE:
            why = "a rule that is too long"
        if why:
            raise TooComplexError(text.count("\n", 0, start) + 1, why)
    return offsets


def header_name(text: str, start: int) -> str:
    """Return the name in the ``[[name]]`` at this offset; empty if there is none."""
    header = _HEADER.match(text, start)
    return header[1] if header is not None else ""


def reason_unfit(value: object) -> str:
    """Return why no plan can have such values from JSON or TOML; empty for a possible plan.

    The reasons are nesting deeper than MAX_DEPTH and integers longer than MAX_BITS.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(one, int) and one.bit_length() > MAX_BITS for one in level):
            return "a number is too large"
        level = [part for one in level for part in _parts(one)]
        if not level:
            return ""
    return "nested too deep"


def _parts(value: object) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
