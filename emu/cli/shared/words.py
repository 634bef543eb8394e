"""Parses words of a command line: ``KEY=VALUE`` tables, and commands for a guest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import click

from emu.host.user_error import UserError


def _never(_word: str) -> bool:
    return False


def table_of(
    words: tuple[str, ...], what: str, example: str = "", is_guest: Callable[[str], bool] = _never
) -> dict[str, object]:
    """Return the table of ``KEY=VALUE`` words; a value is TOML, or else plain text.

    Dots in a key make nested tables. ``what`` names the table in the error message. Raises
    UserError for a word without ``=``, and for a key that occurs twice. A single word that
    ``is_guest`` accepts is said to lack properties such as ``example``.
    """
    import tomllib  # `exec` needs none of this

    from emu.device.faults.toml_limits import reason_unfit

    lines = []
    for word in words:
        key, equals, value = word.partition("=")
        if len(words) == 1 and not equals and is_guest(word):
            raise UserError(f"{word} is a guest: add KEY=VALUE, such as {example}")
        if not equals or not key:
            raise UserError(f"{word!r} is not KEY=VALUE")
        lines.append(_line(key, value))
    try:
        table = tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"not a {what}: {error}") from None
    if why := reason_unfit(table):
        raise UserError(f"not a {what}: {why}")
    return table


def _line(key: str, value: str) -> str:
    """Return a line of TOML for a key; a value that is not TOML becomes a quoted text."""
    import tomllib

    plain = f"{key} = {value}"
    try:
        tomllib.loads(plain)
    except (ValueError, RecursionError):  # too long a number, too deep a list
        return f"{key} = {json.dumps(value)}"
    return plain


def moment(begins: str) -> str:
    """Return when a plan begins, in words; ``begins`` is loading or loaded (Plan.begins)."""
    from emu.device.faults.plan import LOADED

    return "once the driver is up" if begins == LOADED else "with the boot"


def command_words(words: tuple[str, ...], behind: str) -> tuple[str, ...]:
    """Return COMMAND without a leading ``--``; ``behind`` is the argument before COMMAND.

    Raises UsageError if COMMAND begins with an option or an empty word.
    """
    if words and words[0].startswith("-") and words[0] != "--":
        raise click.UsageError(f"{words[0]}: options come before {behind}")
    command = words[1:] if words[:1] == ("--",) and len(words) > 1 else words
    check_named(command)
    return command


def check_named(words: Sequence[str]) -> None:
    """Raise UsageError for a command whose first word, the program's name, is empty."""
    if words and not words[0]:
        raise click.UsageError("COMMAND begins with an empty word: name a program")
