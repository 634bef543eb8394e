"""Checks of a guest's options that the device server would make, before any process starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from emu.guests.architecture import NATIVE, WITH_VFS
from emu.guests.options.guest import OptionError, option_named, options
from emu.host.user_error import UserError
from emu.model_words import given_text

_MIB = 1 << 20


def check_types(choices: Mapping[str, Any]) -> None:
    """Raise OptionError for the options whose values have another type than their kinds.

    ``choices`` maps fields' names to a user's values; None and missing ones are not checked.
    """
    _raise(_misfits(choices))


def _misfits(choices: Mapping[str, Any]) -> list[OptionError]:
    return [
        OptionError(one.name, f"{one.word}: {why}, not {given_text(value)}")
        for one in options()
        if (value := choices.get(one.name)) is not None and (why := one.kind.misfit(value))
    ]


def _raise(errors: Sequence[OptionError]) -> None:
    """Raise the first error, which has the others as ``others``; do nothing without one."""
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]


def check_options(choices: Mapping[str, Any]) -> None:
    """Raise OptionError for the options that the server or QEMU would refuse: all in one.

    ``choices`` maps fields' names to options; one that is None or missing is not checked. Types,
    devices, uplinks, fabric, transport and memory are checked; no process is started.
    """
    errors = _misfits(choices)
    wrong = {error.name for error in errors}
    checks: dict[str, Callable[[Any], None]] = {
        "devices": partial(_devices, choices=choices),
        "nets": _nets,
        "fabric": _fabric,
        "transport": _transport,
        "memory_mib": _memory,
    }
    for name, check in checks.items():
        if name not in wrong and (value := choices.get(name)) not in (None, ()):
            errors += _checked(name, partial(check, value))
    _raise(errors)


def _checked(name: str, check: Callable[[], None]) -> Iterator[OptionError]:
    """Call ``check``; yield its ValueError or UserError as an OptionError of option ``name``."""
    try:
        check()
    except (ValueError, UserError) as error:
        option = option_named(name)
        text = str(error).removeprefix(f"--{option.flag} ")
        yield OptionError(name, f"{option.word}: {text}")


def _devices(devices: tuple[str, ...], choices: Mapping[str, Any]) -> None:
    """Refuse devices with mistakes, and virtual functions where the machine cannot have any."""
    from emu.server.service.devicespec import parse_all
    from emu.server.service.endpoints import check_vfs
    from emu.server.vfio.kinds import DEFAULT_KIND

    specs = parse_all(devices, fabric=choices.get("fabric") is not None)
    has_subnet = choices.get("subnet") is not None
    check_vfs(specs, choices.get("transport") or DEFAULT_KIND, has_subnet=has_subnet)
    arch = choices.get("arch") or NATIVE.name
    if any(spec.vfs for spec in specs) and arch != WITH_VFS:
        raise ValueError(f"vfs: only {WITH_VFS} guests can have virtual functions, not {arch}")


def _nets(texts: Sequence[str]) -> None:
    from emu.server.net.eth.spec import parse
    from emu.server.service.listening import check_uplinks

    check_uplinks([parse(text) for text in texts])


def check_uplinks_used(nets: Sequence[str], devices: tuple[str, ...]) -> None:
    """Raise OptionError if ``nets`` has uplinks and all devices' ports are InfiniBand."""
    from emu.server.service.devicespec import parse_all
    from layouts.enums.caps import PortType

    ports = {spec.model.port_type for spec in parse_all(devices, fabric=True)}
    if nets and ports == {PortType.IB}:
        raise OptionError(
            "nets", f"no Ethernet port in {', '.join(devices)}: add --device connectx6dx"
        )


def _fabric(name: str) -> None:
    from emu.server.service.listening import check_fabric

    check_fabric(name)


def _transport(name: str) -> None:
    """Refuse another transport than QEMU's; a guest of User-Mode Linux takes no choice."""
    from emu.server.vfio.kinds import KINDS

    if name not in KINDS:
        raise ValueError(f"no transport {name!r}; known: {', '.join(KINDS)}")


def _memory(mib: int) -> None:
    """Refuse more memory than the host has: such a guest would boot for ever."""
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MIB
    if mib > has:
        raise ValueError(f"{mib} MiB exceed the host's {has} MiB")
