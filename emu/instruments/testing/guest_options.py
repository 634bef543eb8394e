"""The options of a test's guest: those of the command line and of the test's markers."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from emu.guests.options import OptionError, options
from emu.instruments.testing.command_line import given_options

if TYPE_CHECKING:
    from emu.guests import GuestOptions

MAX_NAME_LENGTH = 100
"""Characters of a guest's options in its directory's name; longer names end in a hash."""


def options_of(
    item: Any, devices: Sequence[str] | None, suite: str | None, base: Path
) -> tuple[GuestOptions, bool]:
    """Return the guest options of the command line and a test's markers, and ``fresh``.

    Markers override the command line, inner markers outer ones. ``devices`` are the functions of a
    failure's guest, which is fresh; both may be overridden. Without a share the directory in which
    pytest was started is shared, read-only, if the guest's kernel can mount it. A trace file below
    ``base`` is added, unless --mlx5-no-trace. A marker with an invalid option fails the test with
    one line.
    """
    from emu.guests.options.checks import check_options
    from emu.guests.requested import requested

    config = item.config
    chosen = given_options(config)
    if devices is not None:
        chosen = {"fresh": True, "devices": [*devices]} | chosen
    for mark in reversed(list(item.iter_markers("mlx5"))):
        chosen |= _marked(mark)
    if suite is not None:
        chosen["suite"] = suite
    is_fresh = chosen.pop("fresh", False)
    if not isinstance(is_fresh, bool):
        raise pytest.fail.Exception(
            f"mark.mlx5: fresh: true or false is needed, not {is_fresh!r}", pytrace=False
        )
    wants_trace = not config.getoption("--mlx5-no-trace") and chosen.get("trace") is None
    try:
        check_options({name: value for name, value in chosen.items() if value is not None})
        made = requested(chosen | _default_share(config, chosen))
    except OptionError as error:
        texts = [f"mark.mlx5: {one}" for one in (error, *error.others)]
        raise pytest.fail.Exception("\n".join(texts), pytrace=False) from None
    if wants_trace and made.devices:
        directory = _directory(base, chosen, is_fresh)
        made = dataclasses.replace(made, trace=directory / "trace.json")
    return made, is_fresh


def _default_share(config: pytest.Config, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that share the directory in which pytest was started.

    Return none where the test or the command line has chosen a directory, or none.
    """
    if "share" in chosen or config.getoption("--mlx5-no-share"):
        return {}
    return {"share": config.invocation_params.dir, "share_optional": True}


def _marked(mark: pytest.Mark) -> dict[str, Any]:
    """Return the options of a marker ``mlx5`` by name; the keys of files are accepted as names.

    A marker with positional arguments fails the test.
    """
    if mark.args:
        why = "mark.mlx5 takes options by name, such as devices=['connectx6dx']"
        raise pytest.fail.Exception(why, pytrace=False)
    names = {one.word: one.name for one in options()}
    return {names.get(word, word): value for word, value in mark.kwargs.items()}


def _directory(base: Path, chosen: dict[str, object], is_fresh: bool) -> Path:
    """Create and return the directory of a guest's files; other options have another directory."""
    words = "-".join(f"{name}-{value}" for name, value in chosen.items())
    name = "".join(letter if letter.isalnum() else "-" for letter in words)
    if len(name) > MAX_NAME_LENGTH:
        name = f"{name[:MAX_NAME_LENGTH]}-{zlib.crc32(words.encode()):08x}"
    where: Path = base / f"mlx5-{name}-{'own' if is_fresh else 'shared'}"
    where.mkdir(exist_ok=True)
    return where
