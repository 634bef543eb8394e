"""A topology: guests of one host from one TOML file, whose functions one server has.

Every mistake of a file is told at once, each with its line and with what is allowed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from emu.guests.archive.names import DEFAULT_SUITE
from emu.guests.errors import LabError
from emu.guests.kernel.choice import choose
from emu.guests.named import running
from emu.guests.options import DEFAULT_BOOT_TIMEOUT, DEFAULT_DEVICE, GuestOptions
from emu.host.toml_file import TomlFile
from emu.host.user_error import UserError
from emu.toml_lines import Place

MOST_GUESTS = 64

Words = Annotated[list[StrictStr], Field(max_length=1000)]


class GuestTable(BaseModel):
    """``[[guest]]``; with ``count`` so many, and ``{n}`` in texts is the number of each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: StrictStr
    count: Annotated[int, Field(strict=True, ge=1, le=MOST_GUESTS)] = 1
    suite: StrictStr = DEFAULT_SUITE
    packages: Words = []
    kernel: Words = []
    devices: Words = [DEFAULT_DEVICE]
    memory: Annotated[int, Field(strict=True, ge=512)] = 1024
    cpus: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    hugepages: Annotated[int, Field(strict=True, ge=0)] = 0
    boot_timeout: Annotated[float, Field(ge=1)] = DEFAULT_BOOT_TIMEOUT
    share: StrictStr | None = None
    out: StrictStr | None = None
    network: StrictBool = False
    kernel_args: Words = []
    commands: Words = []


class ServerTable(BaseModel):
    """``[server]``: the process that has the functions of all guests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fabric: StrictStr | None = None
    nets: Words = []
    trace: StrictStr | None = None
    pcap: StrictStr | None = None
    faults: StrictStr | None = None
    record: StrictStr | None = None


class File(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: StrictStr | None = None
    guest: Annotated[list[GuestTable], Field(min_length=1, max_length=MOST_GUESTS)]
    server: ServerTable = ServerTable()


class Node:
    """One guest of a topology: its options, and the commands that it runs when it is up."""

    def __init__(self, name: str, options: GuestOptions, commands: Sequence[str]) -> None:
        self.name = name
        self.options = options
        self.commands = tuple(commands)


class Topology:
    """Guests by name, and the options of their server."""

    def __init__(self, name: str, nodes: Sequence[Node], server: ServerTable, base: Path) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.devices = tuple(device for node in nodes for device in node.options.devices)
        self.trace, self.faults, self.record = (
            None if path is None else base / path
            for path in (server.trace, server.faults, server.record)
        )
        words = ["--fabric", server.fabric] if server.fabric is not None else []
        words += ["--pcap", str(base / server.pcap)] if server.pcap is not None else []
        self.server_options = (*words, *(word for net in server.nets for word in ("--net", net)))


@dataclass(frozen=True)
class Checks:
    """Parsers of words that are the server's to read; each raises ValueError or UserError."""

    devices: Callable[..., object]
    """Takes the specifications of all functions, and ``fabric``: whether one chooses LIDs."""
    net: Callable[[str], object]
    fabric: Callable[[str], object]
    plan: Callable[[Path], object]


def read(path: Path, checks: Checks | None = None) -> Topology:
    """The topology in a file; paths in it are relative to the file. Raises :class:`LabError`."""
    file = TomlFile(path, File, {"guest": GuestTable, "server": ServerTable}, LabError)
    base = path.resolve().parent
    nodes: list[Node] = []
    found: list[tuple[Place, object]] = []
    for number, guest in enumerate(file.content.guest):
        try:
            nodes += _nodes(guest, base)
            _check_names(nodes)
        except (LabError, OSError) as error:
            found.append((("guest", number), _told(error)))
    if checks is not None:
        found += _of_devices(file.content, checks)
        found += _of_server(file.content.server, base, checks)
    if found:
        raise file.mistakes(found)
    name = file.content.name or path.stem
    running.check_name(name)
    return Topology(name, nodes, file.content.server, base)


def _of_devices(file: File, checks: Checks) -> Iterator[tuple[Place, object]]:
    """Mistakes in the guests' devices: in their words, and with those of the guests before."""
    good: list[str] = []
    for number, guest in enumerate(file.guest):
        mine = [
            device.replace("{n}", str(one))
            for one in range(1, guest.count + 1)
            for device in guest.devices
        ]
        joined = partial(checks.devices, fabric=file.server.fabric is not None)
        if (why := _refused(joined, [*good, *mine])) is None:
            good += mine
        else:
            yield ("guest", number, "devices"), why


def _of_server(server: ServerTable, base: Path, checks: Checks) -> Iterator[tuple[Place, object]]:
    """Mistakes in the server's options."""
    tried: list[tuple[str, Callable[..., object], object]] = []
    tried += [("nets", checks.net, net) for net in server.nets]
    if server.fabric is not None:
        tried.append(("fabric", checks.fabric, server.fabric))
    if server.faults is not None:
        tried.append(("faults", checks.plan, base / server.faults))
    for key, check, word in tried:
        if (why := _refused(check, word)) is not None:
            yield ("server", key), why
    for key in ("trace", "pcap", "record"):
        file = getattr(server, key)
        if file is None:
            continue
        try:
            (base / file).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            yield ("server", key), f"no directory {(base / file).parent}: {error.strerror}"


def _refused(check: Callable[..., object], *words: object) -> str | None:
    """Why a check does not take these words; None when it does."""
    try:
        check(*words)
    except (ValueError, UserError, OSError) as error:
        return _told(error)
    return None


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _nodes(guest: GuestTable, base: Path) -> Iterator[Node]:
    for number in range(1, guest.count + 1):
        name = guest.name.replace("{n}", str(number))
        if name == guest.name and guest.count > 1:
            raise LabError(f'{guest.count} guests need names of their own: name = "{name}{{n}}"')
        running.check_name(name)

        def filled(words: Sequence[str], number: int = number) -> tuple[str, ...]:
            return tuple(word.replace("{n}", str(number)) for word in words)

        share = guest.share and base / guest.share.removesuffix(":rw")
        out = guest.out and base / filled([guest.out])[0]
        if out:
            out.mkdir(parents=True, exist_ok=True)
        kernel = [word if word.startswith("debian:") else str(base / word) for word in guest.kernel]
        chosen = choose(kernel, guest.suite) if kernel else None
        options = GuestOptions(
            suite=guest.suite,
            packages=tuple(guest.packages),
            kernel=chosen.kernel if chosen else None,
            modules=chosen.modules if chosen else None,
            devices=filled(guest.devices),
            share=share or None,
            share_writable=(guest.share or "").endswith(":rw"),
            out=out or None,
            network=guest.network,
            memory_mib=guest.memory,
            cpus=guest.cpus,
            hugepages=guest.hugepages,
            boot_timeout=guest.boot_timeout,
            kernel_arguments=filled(guest.kernel_args),
        )
        yield Node(name, options, filled(guest.commands))


def _check_names(nodes: Sequence[Node]) -> None:
    names = [node.name for node in nodes]
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"two guests are called {name}")
    if len(nodes) > MOST_GUESTS:
        raise LabError(f"more than {MOST_GUESTS} guests")
