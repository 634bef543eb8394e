"""The specifications of all functions of a server: boards, virtual functions, own addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from emu.device.models.board_ports import MAX_PORTS, with_port
from emu.device.models.virtual_functions import virtual_function_of
from emu.device.state.hca import HcaOptions
from emu.server.service.devicespec.model import naming
from emu.server.service.devicespec.settings import MAX_LID, DeviceSpecError, syntax
from emu.server.service.devicespec.spec import DeviceSpec, parse
from layouts.enums.caps import PortType

VF_GUIDS_APART = 1 << 11
"""Distance between the default GUIDs of a physical function and its virtual ones. The distance
leaves GUIDs for 128 functions of a server, and is below that of sub-functions."""


def parse_all(texts: Sequence[str], *, fabric: bool = False) -> list[DeviceSpec]:
    """Return the specifications of a server's functions, in order, with boards' ports assigned.

    Raises :class:`DeviceSpecError` as :func:`parse` does, for two functions with one LID or GUID,
    and for a board without exactly two functions of one model. A ``fabric`` assigns the LIDs and
    GUIDs that a specification omits, which are not compared then.
    """
    specs = _with_vfs(_with_ports(_parsed(texts)))
    functions = [(at, one) for at, device in enumerate(specs) for one in (device, *device.vfs)]
    for key in ("lid", "guid"):
        holders: dict[int, int] = {}
        for number, spec in functions:
            has_none = key == "lid" and spec.model.port_type is not PortType.IB
            if has_none or (fabric and key not in spec.chosen):
                continue
            value = getattr(spec.options, key)
            if value in holders:
                shown = value if key == "lid" else f"{value:#x}"
                raise DeviceSpecError(
                    f"functions {holders[value]} and {number} both have {key}={shown}: give one"
                    f" of them another with {syntax(key)}"
                )
            holders[value] = number
    return specs


def _parsed(texts: Sequence[str]) -> list[DeviceSpec]:
    """Return the functions' specifications. Raises one DeviceSpecError for all of them."""
    specs, wrong = [], []
    for index, text in enumerate(texts):
        try:
            specs.append(parse(text, index))
        except DeviceSpecError as error:
            wrong.append(str(error))
    if wrong:
        raise DeviceSpecError("\n".join(wrong))
    return specs


def _with_vfs(specs: list[DeviceSpec]) -> list[DeviceSpec]:
    """Return the specifications with those of virtual functions, which get the LIDs left over."""
    taken = {spec.options.lid for spec in specs if spec.model.port_type is PortType.IB}
    free = (lid for lid in range(1, MAX_LID + 1) if lid not in taken)
    made = []
    for spec in specs:
        vfs = []
        for number in range(1, spec.model.total_vfs + 1):
            guid = spec.options.guid + number * VF_GUIDS_APART
            pages, pkeys = spec.options.boot_pages, spec.options.pkeys
            options = HcaOptions(guid, next(free), pages, pkeys=pkeys)
            model = virtual_function_of(spec.model)
            vfs.append(DeviceSpec(model, options, segment=spec.segment))
        made.append(replace(spec, vfs=tuple(vfs)))
    return made


def _with_ports(specs: list[DeviceSpec]) -> list[DeviceSpec]:
    """Return the specifications; functions of a board become its ports 1 and 2, in order.

    Raises :class:`DeviceSpecError` unless each board has two functions of one model, both physical
    and with Ethernet.
    """
    boards = Counter(spec.board for spec in specs if spec.board)
    for number, count in boards.items():
        if count != MAX_PORTS:
            raise DeviceSpecError(f"board={number} needs {MAX_PORTS} functions, not {count}")
        if len({spec.model.name for spec in specs if spec.board == number}) > 1:
            raise DeviceSpecError(f"board={number}: its functions are of different models")
    ports: Counter[int] = Counter()
    placed = []
    for spec in specs:
        if spec.board:
            ports[spec.board] += 1
            with naming(f"board={spec.board}"):
                spec = replace(spec, model=with_port(spec.model, ports[spec.board]))
        placed.append(spec)
    return placed
