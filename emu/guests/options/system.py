"""Options of a guest's system: suite, architecture, packages, shared directories, boot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from emu.guests.architecture import ARCHITECTURES, NATIVE, is_native, why_not
from emu.guests.archive.names import DEFAULT_SUITE, SUITES, why_not_python
from emu.guests.options.declare import option
from emu.guests.options.kinds import Choice, Directory, Files, Flag, Seconds, Share, Words
from emu.guests.options.uses import AMD64, FROM_START, TERMINAL, Use


def _foreign_python(options: SystemOptions, packages: Sequence[object]) -> str:
    """Return why a guest of another architecture cannot have these Python packages; else ""."""
    is_foreign = bool(packages) and not is_native(ARCHITECTURES[options.arch])
    return f"only for guests of {NATIVE.name}" if is_foreign else ""


@dataclass(frozen=True, kw_only=True)
class SystemOptions:
    """Options in the group Guest.

    ``packages`` are Debian packages to install in addition to the standard ones. ``pip`` has the
    names of Python packages, with a version or without, and ``wheels`` files of such packages; what
    they depend on is installed, too.

    ``share`` is a directory mounted at /mnt/share, read-only unless ``share_writable``; the guest's
    /mnt/out is the directory ``out``.

    A guest is resumed from a saved boot if the cache has one (:mod:`emu.guests.guest.saved_boot`):
    its functions appear on a bus that its kernel has already scanned. With ``cold`` it boots from
    the start.
    """

    GROUP: ClassVar = "Guest"

    suite: str = option(
        DEFAULT_SUITE,
        flag="suite",
        kind=Choice(among=SUITES),
        help="Debian suite of the guest.",
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
    )
    arch: str = option(
        NATIVE.name,
        flag="arch",
        kind=Choice(among=tuple(ARCHITECTURES)),
        help="Processor architecture of the guest, emulated unless it is the host's.",
        refused={Use.FUZZ_RUN: AMD64, Use.FUZZ_REPLAY: AMD64},
        tables={Use.CAMPAIGN: "kernel"},
        is_recorded=True,
        wrong=lambda o: why_not(ARCHITECTURES[o.arch], vars(o)),
    )
    packages: tuple[str, ...] = option(
        (),
        flag="package",
        kind=Words(metavar="NAME"),
        help="An additional Debian package of the guest; may be repeated.",
        is_recorded=True,
    )
    pip: tuple[str, ...] = option(
        (),
        flag="pip",
        word="pip",
        kind=Words(metavar="NAME[==VERSION]"),
        help="An additional Python package of the guest, fetched by pip; may be repeated.",
        is_recorded=True,
        wrong=lambda o: why_not_python(o.pip, ()) or _foreign_python(o, o.pip),
    )
    wheels: tuple[Path, ...] = option(
        (),
        flag="wheel",
        word="wheels",
        kind=Files(),
        help="A file of an additional Python package of the guest; may be repeated.",
        is_recorded=True,
        wrong=lambda o: (
            why_not_python((), [path.name for path in o.wheels]) or _foreign_python(o, o.wheels)
        ),
    )
    share: Path | None = option(
        None,
        flag="share",
        kind=Share(metavar="DIR[:rw]"),
        help="A directory mounted at /mnt/share, read-only; with :rw the guest may write there.",
        is_recorded=True,
    )
    out: Path | None = option(
        None,
        flag="out",
        kind=Directory(metavar="DIRECTORY", is_made=True),
        help="Directory of the host for the guest's /mnt/out; created when absent.",
    )
    cold: bool = option(
        False,
        flag="cold",
        kind=Flag(),
        help="Boot from the start instead of resuming a saved boot of the same machine.",
        refused={Use.BOOT: FROM_START},
        is_recorded=True,
    )
    boot_timeout: float = option(
        180.0,
        flag="boot-timeout",
        kind=Seconds(metavar="S"),
        help="Seconds in which the guest must accept commands; raise it on a shared host.",
        refused={Use.BOOT: TERMINAL},
    )
