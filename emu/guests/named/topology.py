"""A topology: guests of one host from one TOML file, whose functions one server emulates.

All mistakes of a file are reported at once, each with its line and the allowed values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from emu.guests.errors import LabError
from emu.guests.named import running
from emu.guests.options import GuestOptions, OptionError, Use, option_named, server_words
from emu.guests.options.kinds import File
from emu.guests.options.tables import OptionTable, has_options
from emu.guests.requested import check_requested, requested
from emu.host.toml_file import TomlFile
from emu.host.user_error import UserError
from emu.toml_lines import Place

MAX_GUESTS = 64

Words = Annotated[tuple[StrictStr, ...], Field(max_length=1000)]


@has_options(Use.LAB, "guest")
class LabGuestTable(OptionTable):
    """``[[guest]]``: ``count`` guests, with the number of each in place of ``{n}`` in texts."""

    name: StrictStr
    count: Annotated[int, Field(strict=True, ge=1, le=MAX_GUESTS)] = 1
    commands: Words = ()


@has_options(Use.LAB, "server")
class ServerTable(OptionTable):
    """``[server]``: the process that emulates the functions of all guests."""


class TopologyFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: StrictStr | None = None
    guest: Annotated[list[LabGuestTable], Field(max_length=MAX_GUESTS)] = []
    """At least one; without any, :func:`read` reports that with the other mistakes."""
    server: ServerTable = ServerTable()


@dataclass(frozen=True)
class LabNode:
    """One guest of a topology: its options, and the commands that it runs when it is up."""

    name: str
    options: GuestOptions
    commands: Sequence[str]
    place: str = ""
    """The guest's FILE:LINE."""
    commands_place: str = ""
    """The FILE:LINE of its commands."""


class LabTopology:
    """Guests by name, and the options of their server."""

    def __init__(
        self, name: str, nodes: Sequence[LabNode], server: ServerTable, base: Path
    ) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self.devices = tuple(device for node in nodes for device in node.options.devices)
        self.guests = tuple(node.name for node in nodes for _ in node.options.devices)
        """The name of each device's guest."""
        fields: dict[str, Any] = {
            name: value
            for given, word in server.given().items()
            for name, value in option_named(given).kind.fields(given, word, base).items()
        }
        self.server_options = server_words(fields)
        self.trace: Path | None = fields.get("trace")
        self.faults: Path | None = fields.get("faults")
        self.faults_when: str | None = fields.get("faults_when")
        """When the plan begins; None leaves that to the plan."""
        self.record: Path | None = fields.get("record")


@dataclass(frozen=True)
class Checks:
    """Parsers of the values that the server reads; each raises ValueError or UserError."""

    devices: Callable[..., object]
    """Checks the specifications of all functions; ``fabric`` says whether a fabric chooses LIDs."""
    nets: Callable[[Sequence[str]], object]
    fabric: Callable[[str], object]
    plan: Callable[[Path], object]


def read(path: Path, checks: Checks | None = None) -> LabTopology:
    """Return the topology in a file, whose paths are relative to it. No guest is started.

    ``checks`` adds checks of devices and server. All mistakes are reported in one
    :class:`LabError`, each with its line. Kernels of the archive are fetched after the checks.
    """
    file = TomlFile(path, TopologyFile, {"guest": LabGuestTable, "server": ServerTable}, LabError)
    base = path.resolve().parent
    name = file.content.name or path.stem
    mistakes = list(file.mistakes)
    if not file.content.guest and not any(place[:1] == ("guest",) for place, _ in mistakes):
        mistakes.append(((), "no [[guest]]: at least 1 is needed, with a name"))
    try:
        running.check_name(name)
    except LabError as error:
        mistakes.append((("name",), error))
    named: list[_Named] = []
    for number, guest in enumerate(file.content.guest):
        try:
            mine = list(_named(guest, number))
            _check_names([one.name for one in (*named, *mine)])
            named += mine
            for one in mine:
                check_requested(one.said, base)
        except OptionError as error:
            mistakes.append((("guest", number, option_named(error.name).word), error))
        except (LabError, OSError) as error:
            mistakes.append((("guest", number), _sentence(error)))
    if checks is not None:
        mistakes += _of_devices(file, checks)
        mistakes += _of_server(file.content.server, base, checks)
    if mistakes:
        raise file.errors_at(mistakes)
    # Kernels of the archive are fetched here, after all other checks of the file.
    nodes = [
        LabNode(
            one.name,
            requested(one.said, base),
            one.commands,
            file.place(("guest", one.table)),
            file.place(("guest", one.table, "commands")),
        )
        for one in named
    ]
    return LabTopology(name, nodes, file.content.server, base)


def _of_devices(file: TomlFile[TopologyFile], checks: Checks) -> Iterator[tuple[Place, object]]:
    """Yield the place and reason of each guest's devices that ``checks`` refuses.

    Devices are checked together with those of earlier guests.
    """
    good: list[str] = []
    # A fabric of an invalid value is left out of the content, but is meant.
    is_wrong = any(place[:2] in (("server",), ("server", "fabric")) for place, _ in file.mistakes)
    has_fabric = is_wrong or "fabric" in file.content.server.given()
    for number, guest in enumerate(file.content.guest):
        mine = [
            device.replace("{n}", str(one))
            for one in range(1, guest.count + 1)
            for device in guest.given().get("devices", GuestOptions.devices)
        ]
        joined = partial(checks.devices, fabric=has_fabric)
        if (why := _refused(joined, [*good, *mine])) is None:
            good += mine
        else:
            yield ("guest", number, "devices"), why


def _of_server(server: ServerTable, base: Path, checks: Checks) -> Iterator[tuple[Place, object]]:
    """Yield the place and reason of each invalid option of the server."""
    given = server.given()
    unusable: set[str] = set()
    for name, value in given.items():
        kind = option_named(name).kind
        if isinstance(kind, File) and (why := kind.wrong(base / value)):
            unusable.add(name)
            yield ("server", name), why
    tried: list[tuple[str, Callable[..., object], object]] = []
    if nets := given.get("nets"):
        tried.append(("nets", checks.nets, nets))
    if "fabric" in given:
        tried.append(("fabric", checks.fabric, given["fabric"]))
    if "faults" in given and "faults" not in unusable:
        tried.append(("faults", checks.plan, base / given["faults"]))
    for key, check, word in tried:
        if (refusal := _refused(check, word)) is not None:
            yield ("server", key), refusal


def _refused(check: Callable[..., object], *words: object) -> str | None:
    """Return why a check refuses these words; None when it accepts them."""
    try:
        check(*words)
    except (ValueError, UserError, OSError) as error:
        return _sentence(error)
    return None


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@dataclass(frozen=True)
class _Named:
    """A guest of a table: its name, its options by their names, its commands."""

    name: str
    said: Mapping[str, Any]
    commands: tuple[str, ...]
    table: int
    """Number of its table in the file, from 0."""


def _named(guest: LabGuestTable, table: int) -> Iterator[_Named]:
    """Yield the guests of a table, with their number in place of ``{n}``.

    Raises LabError for an invalid name, and for several guests without ``{n}`` in the name.
    """
    for number in range(1, guest.count + 1):
        name = guest.name.replace("{n}", str(number))
        if name == guest.name and guest.count > 1:
            raise LabError(f'{guest.count} guests need different names: name = "{name}{{n}}"')
        running.check_name(name)
        said = {key: _filled(value, number) for key, value in guest.given().items()}
        yield _Named(name, said, _filled(guest.commands, number), table)


def _filled(value: object, number: int) -> Any:
    """Return a text with ``{n}`` replaced by ``number``, or a tuple of such texts for a sequence.

    Lists and tuples are filled at any depth, and lists become tuples. Any other value, also a dict,
    is returned unchanged.
    """
    if isinstance(value, str):
        return value.replace("{n}", str(number))
    if isinstance(value, list | tuple):
        return tuple(_filled(word, number) for word in value)
    return value


def _check_names(names: Sequence[str]) -> None:
    """Raise LabError for two guests of one name, or more than 64 guests."""
    for name in names:
        if names.count(name) > 1:
            raise LabError(f"two guests are called {name}")
    if len(names) > MAX_GUESTS:
        raise LabError(f"more than {MAX_GUESTS} guests")
