"""The options of a guest: the table, and its checks."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from emu.guests.archive.names import check_packages
from emu.guests.errors import LabError
from emu.guests.options.declare import Option, declared_in
from emu.guests.options.devices import DeviceOptions
from emu.guests.options.faults import FaultPlanOptions
from emu.guests.options.kernel import KernelOptions
from emu.guests.options.kinds import Flag, Words
from emu.guests.options.machine import MachineOptions
from emu.guests.options.system import SystemOptions
from emu.host.user_error import WRONG_USE
from emu.near import near


class OptionError(LabError):
    """An invalid option; ``name`` is its field, ``others`` are errors found in the same check."""

    status = WRONG_USE

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name
        self.others: tuple[OptionError, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GuestOptions(SystemOptions, KernelOptions, DeviceOptions, FaultPlanOptions, MachineOptions):
    """Options of one guest; the constructor raises :class:`LabError` for an invalid option.

    Each base has the options of a group in the help of commands.

    The fields here are not options of users: commands set them. With ``share_optional`` a guest
    whose kernel cannot mount ``share`` boots without. With ``gdb`` QEMU accepts a debugger.
    ``hold_probe`` loads the mlx5 driver during boot, but leaves the functions to
    :meth:`emu.guests.Guest.probe`. With ``stays`` a guest that panics or powers off stays for
    inspection, and one that reboots is awaited. ``server_options`` are appended. ``hostname`` is
    the guest's own name. ``hang_timeout`` is the maximum number of seconds for the answer to a
    ping. ``verbose`` copies the console and the server's log to our standard error.
    """

    share_writable: bool = False
    share_optional: bool = False
    server_options: tuple[str, ...] = ()
    hold_probe: bool = False
    stays: bool = False
    hostname: str = "guest"
    gdb: bool = False
    hang_timeout: float = 90.0
    verbose: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for one in options():
            if why := one.kind.wrong(getattr(self, one.name)) or one.wrong(self):
                raise OptionError(one.name, f"{one.word}: {why}")
        if self.hang_timeout <= 0:
            raise OptionError("hang_timeout", "hang_timeout: needs more than 0 s")
        try:
            check_packages(self.packages)
        except LabError as error:
            raise OptionError("packages", f"packages: {error}") from None

    @property
    def python_packages(self) -> tuple[str, ...]:
        """Python packages to install: requirements, then paths of wheels."""
        return (*self.pip, *map(str, self.wheels))

    @property
    def server_words(self) -> tuple[str, ...]:
        """Arguments of ``mlx5emu serve`` besides functions, trace and faults."""
        return (*server_words(vars(self)), *self.server_options)


@functools.cache
def options() -> tuple[Option, ...]:
    """Return every option, in the order in which help shows them."""
    return declared_in(*GuestOptions.__bases__)


def option_named(name: str) -> Option:
    """Return the option whose field has that name. Raises OptionError for an unknown name."""
    for one in options():
        if one.name == name:
            return one
    raise unknown_option(name, [one.name for one in options()])


def unknown_option(name: str, known: Iterable[str]) -> OptionError:
    """Return the error for a name that is not among the ``known`` ones; it has similar names."""
    return OptionError(name, f"no option {name!r} of a guest{near(name, known)}")


def server_words(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return arguments of ``mlx5emu serve`` for values by the options' names.

    Options that are not for the server, and empty or absent values, are left out. A flag has no
    value; a list repeats its option.
    """
    words: list[str] = []
    for one in options():
        value = values.get(one.name)
        if not one.is_for_server or not value:
            continue
        if isinstance(one.kind, Flag):
            words.append(f"--{one.flag}")
            continue
        for single in value if isinstance(one.kind, Words) else (value,):
            words += (f"--{one.flag}", str(single))
    return tuple(words)
