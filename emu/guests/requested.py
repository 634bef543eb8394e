"""The options of a guest as users say them: words of a command line, keys of a file, a marker's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from emu.guests.archive.bootstrap import Progress
from emu.guests.kernel.choice import choose
from emu.guests.options import GuestOptions, options

_HERE = Path()


def requested(
    said: Mapping[str, Any],
    base: Path = _HERE,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> GuestOptions:
    """The options of what a user has said, by the options' names; None is not said.

    Paths are relative to ``base``. What is no option of users is a field as it is. A kernel is
    looked for, and fetched when it is the archive's. Raises :class:`LabError`, and OSError for a
    directory that cannot be made.
    """
    fields = {name: value for name, value in said.items() if value is not None}
    for one in options():
        if one.name in fields:
            fields |= one.kind.fields(one.name, fields[one.name], base)
    if "share_writable" in said:
        fields["share_writable"] = said["share_writable"]
    words = fields.pop("kernel", ())
    if words:
        suite = fields.get("suite", GuestOptions.suite)
        chosen = choose(words, suite, progress, on_wait)
        fields |= {"kernel": chosen.kernel, "modules": fields.get("modules") or chosen.modules}
    return GuestOptions(**fields)
