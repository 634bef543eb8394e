"""README.md beside this: every option with its words, its default, and where it has no meaning."""

from __future__ import annotations

from collections.abc import Iterator

from emu.guests.options.declare import Option
from emu.guests.options.guest import options
from emu.guests.options.kinds import Choice, Flag
from emu.guests.options.uses import Use

_HEAD = """\
# What a guest can be asked to be

`scripts/gen-options-table` writes this page from `guest.py`, where each option is declared once.

| command line | file | `GuestOptions` | default | what |
|---|---|---|---|---|
"""
_TAIL = """
The second column is the key in lab files, campaign files and records (`*`: a record has it, and a
replay takes it from there). In a lab file it stands in `[[guest]]`, in a campaign file in
`[guest]`, unless another table is named. The pytest plugin has all of them as `--mlx5-...`, and
those of the third column as keys of the marker `mlx5`. `DIR:rw` lets the guest write to DIR, unless
a directory is called so.

With 2048 MiB and two processors rdma-core's tests pass and two processes that poll do not wait for
each other; the host gives memory when it is touched. A file of many guests says what they have
less, as `examples/lab/sixteen.toml` does.

| has no meaning | in | because |
|---|---|---|
"""


def markdown() -> str:
    """The page."""
    return _HEAD + "".join(map(_row, options())) + _TAIL + "".join(_refusals())


def _row(one: Option) -> str:
    where = [f"{use.value.split()[1]}: `{name}`" for use, name in one.tables.items()]
    word = f"`{one.word}`{' *' if one.is_recorded else ''}"
    word += f" ({', '.join(where)})" if where else ""
    return f"| {_words(one)} | {word} | `{one.name}` | {one.default_text or '-'} | {one.help} |\n"


def _words(one: Option) -> str:
    """How it is said on a command line."""
    if isinstance(one.kind, Flag):
        return f"`--{one.flag}`, `--no-{one.flag}`" if one.default is True else f"`--{one.flag}`"
    if isinstance(one.kind, Choice):
        return f"`--{one.flag}` {', '.join(one.kind.among)}"
    return f"`--{one.flag}` {one.kind.metavar}"


def _refusals() -> Iterator[str]:
    """One row for the options and uses that have the same reason."""
    refusals: dict[tuple[tuple[Use, ...], str], list[str]] = {}
    for one in options():
        for why in dict.fromkeys(one.refused.values()):
            uses = tuple(use for use in Use if one.why_not(use) == why)
            refusals.setdefault((uses, why), []).append(f"`{one.flag}`")
    for (uses, why), names in refusals.items():
        yield f"| {', '.join(names)} | {', '.join(f'`{use.value}`' for use in uses)} | {why} |\n"
