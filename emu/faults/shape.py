"""The shape of a plan's text, looked at before anybody parses it.

A parser of TOML takes time with the square of a key's parts and with the depth of its brackets, and
everything that walks through the values goes as deep. No plan needs either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MOST_DEPTH = 16
"""Brackets inside brackets."""

MOST_BITS = 4096
"""Bits of a number. Python refuses to print what has many more."""

MOST_PARTS = 16
"""Parts of a key: ``match.cq_context.log_cq_size`` has three."""

# Every alternative consumes what it looks at, an unclosed string up to the end: linear time.
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


def too_complex(text: str) -> tuple[int, str] | None:
    """The line of a TOML text where it goes too deep, and why; None when it is fine."""
    depth = dots = 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "dot":
            dots += 1
        elif kind == "open":
            depth += 1
            dots = 0
        elif kind == "close":
            depth = max(depth - 1, 0)
            dots = 0
        elif kind == "end":
            dots = 0
        if depth > MOST_DEPTH or dots >= MOST_PARTS:
            line = text.count("\n", 0, token.start()) + 1
            return line, "nested too deep" if depth > MOST_DEPTH else "a key of too many parts"
    return None


def unfit(value: Any) -> str:
    """Why no plan can have such values, which JSON or TOML has given; empty when it may be one."""
    level: list[Any] = [value]
    for _ in range(MOST_DEPTH + 1):
        if any(isinstance(one, int) and one.bit_length() > MOST_BITS for one in level):
            return "a number is too large"
        level = [part for one in level for part in _parts(one)]
        if not level:
            return ""
    return "nested too deep"


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
