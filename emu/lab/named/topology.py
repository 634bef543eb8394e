"""A topology: guests of one host from one TOML file, whose functions one server has.

Every mistake of a file is told at once, each with its line and with what is allowed there.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError

from emu.lab.archive.names import DEFAULT_SUITE
from emu.lab.errors import LabError
from emu.lab.kernel.choice import choose
from emu.lab.named import running
from emu.lab.options import DEFAULT_DEVICE, GuestOptions

MOST_GUESTS = 64
_MOST_BYTES = 1 << 20
_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_-]+)\s*\]\]?")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+)\s*=")

Words = Annotated[list[StrictStr], Field(max_length=1000)]
Place = tuple[str | int, ...]


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


def read(path: Path) -> Topology:
    """The topology in a file; paths in it are relative to the file. Raises :class:`LabError`."""
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise LabError(f"{path}: more than {_MOST_BYTES >> 20} MiB")
    text = data.decode(errors="replace")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise LabError(f"{path}: {error}") from None
    lines = dict(_places(text))
    try:
        file_table = File.model_validate(table)
    except ValidationError as error:
        told = [f"{path}:{_line(lines, one['loc'])}: {_said(one)}" for one in error.errors()]
        raise LabError("\n".join(told)) from None
    nodes: list[Node] = []
    for number, guest in enumerate(file_table.guest):
        try:
            nodes += _nodes(guest, path.resolve().parent)
            _check_names(nodes)
        except LabError as error:
            raise LabError(f"{path}:{_line(lines, ('guest', number))}: {error}") from None
    name = file_table.name or path.stem
    running.check_name(name)
    return Topology(name, nodes, file_table.server, path.resolve().parent)


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


def _places(text: str) -> Iterator[tuple[Place, int]]:
    """Where tables and keys begin: their path as pydantic gives it, and the line."""
    counts: dict[str, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            table = (name,)
            if header[1] == "[[":
                counts[name] = counts.get(name, -1) + 1
                table = (name, counts[name])
            yield table, number
        elif key := _KEY.match(line):
            yield (*table, key[1]), number


def _line(lines: dict[Place, int], place: Place) -> int:
    """The line of the innermost part of a place that the text shows."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def _said(error: Any) -> str:
    """A mistake in words, with what is allowed."""
    *_, key = error["loc"]
    if error["type"] == "extra_forbidden":
        tables: dict[str, type[BaseModel]] = {"guest": GuestTable, "server": ServerTable}
        inner = tables.get(str(error["loc"][0]), File) if len(error["loc"]) > 1 else File
        return f"no key {str(key)!r} here: one of {', '.join(inner.model_fields)}"
    return f"{key}: {error['msg']}"
