"""Words like ``match.op=CREATE_CQ`` of a command line, as a table of a plan."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from emu.host.user_error import UserError


def table_of(words: tuple[str, ...], what: str) -> dict[str, Any]:
    """The table that words describe; a value is TOML, or plain text. ``what`` it should be."""
    lines = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(f"{word!r} is no KEY=VALUE")
        lines.append(_line(key, value))
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"these words are no {what}: {error}") from None


def _line(key: str, value: str) -> str:
    plain = f"{key} = {value}"
    try:
        tomllib.loads(plain)
    except tomllib.TOMLDecodeError:
        return f"{key} = {json.dumps(value)}"
    return plain
