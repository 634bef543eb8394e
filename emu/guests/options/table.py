"""Generates README.md: every option with its names, its default, and the uses that refuse it."""

from __future__ import annotations

from collections.abc import Iterator

from emu.guests.options.declare import Option
from emu.guests.options.guest import options
from emu.guests.options.kinds import Choice, Flag
from emu.guests.options.uses import Use

_HEAD = """\
# Options of a guest

`scripts/gen-options-table` generates this page. `system.py`, `kernel.py`, `devices.py`, `faults.py`
and `machine.py` declare each option once.

| command line | file | `GuestOptions` | default | meaning |
|---|---|---|---|---|
"""
_TAIL = """
## Keys

The second column is the key in lab files, campaign files and records (`*`: recorded, and restored
by a replay). The key is in `[[guest]]` of a lab file and in `[guest]` of a campaign file, unless
another table is named. The pytest plugin has every option as `--mlx5-...`. Keys of its marker
`mlx5` are the names of the second and of the third column. `DIR:rw` lets the guest write to DIR,
unless a directory has that name.

With 2048 MiB and two processors rdma-core's tests pass, and two polling processes do not wait for
each other. The host allocates memory when the guest touches it. A file of many guests can reduce
both, for example `examples/lab/sixteen.toml`.

## Refusals

| option | refused by | reason |
|---|---|---|
"""


def markdown() -> str:
    """Return the page."""
    return _HEAD + "".join(map(_row, options())) + _TAIL + "".join(_refusals())


def _row(one: Option) -> str:
    where = [f"{use.value.split()[1]}: `{name}`" for use, name in one.tables.items()]
    word = f"`{one.word}`{' *' if one.is_recorded else ''}"
    word += f" ({', '.join(where)})" if where else ""
    return f"| {_words(one)} | {word} | `{one.name}` | {one.default_text or '-'} | {one.help} |\n"


def _words(one: Option) -> str:
    """Return the option's form on a command line."""
    if isinstance(one.kind, Flag):
        return f"`--{one.flag}`, `--no-{one.flag}`" if one.default is True else f"`--{one.flag}`"
    if isinstance(one.kind, Choice):
        return f"`--{one.flag}` {', '.join(one.kind.among)}"
    return f"`--{one.flag}` {one.kind.metavar}"


def _refusals() -> Iterator[str]:
    """Yield one row for each set of options and uses with the same reason."""
    refusals: dict[tuple[tuple[Use, ...], str], list[str]] = {}
    for one in options():
        for why in dict.fromkeys(one.refused.values()):
            uses = tuple(use for use in Use if one.why_not(use) == why)
            refusals.setdefault((uses, why), []).append(f"`{one.flag}`")
    for (uses, why), names in refusals.items():
        yield f"| {', '.join(names)} | {', '.join(f'`{use.value}`' for use in uses)} | {why} |\n"
