"""The syntax of a device on the command line: ``MODEL[,KEY=VALUE]...``.

Examples: ``connectx6``, ``connectx6-vf,lid=7``, ``connectx5,link=eth``. MODEL is a model of
``emu.device.models``; the settings are options of the function.

``link`` is ``ib`` or ``eth``. ``mac`` is the address of an Ethernet port; the default follows from
the GUID. ``segment`` is the number of the port's segment, as in ``--net``. ``pkeys`` are an
InfiniBand port's partitions besides the default one. With ``ib_virt=0`` the driver queries an
InfiniBand port by MAD_IFC, as with old firmware. With ``mw_2a=1`` type 2 memory windows are of type
2A instead of 2B. ``odp`` is 0 for no on-demand paging, 1 for the transport scheme, 2 for the memory
scheme as well; the default is the model's. With ``real_time=1`` time stamps have the time of day;
``pps=1`` gives the board pins for pulses. Both need Ethernet and ConnectX-6 Dx or later.

A physical function with an Ethernet port manages the adapter's embedded switch, except on
ConnectX-4 Lx and with ``switch=0``. With ``sfs=N`` it also has up to N sub-functions.

With ``vfs=N`` a physical function can enable up to N virtual functions by SR-IOV, which have its
``pages`` and ``pkeys``. With an Ethernet port it then has the switch.

With ``smfs=0`` only the firmware owns flow tables. The default also lets software own some, on
models whose real adapters permit it (ConnectX-6 Dx and later): drivers write the entries into the
adapter's memory.

Two functions with the same ``board=N`` are the ports of a board, in command-line order. With
``port_select=1`` on both, flow tables choose the ports of a bond that hashes, and the switches of
both can be one (multi-port E-Switch).

With ``crypto=plaintext`` or ``crypto=wrapped`` the function encrypts by AES-XTS, with keys in that
form. With ``bf=1`` the function accepts work requests that are copied behind their doorbells
(BlueFlame).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emu.device.models import (
    ALL_MEMORY_ODP,
    ALL_TRANSPORT_ODP,
    DEFAULT_MODEL,
    IB_MEMORY_ODP,
    IB_TRANSPORT_ODP,
    LINKS,
    MEMORY_ODP,
    MODELS,
    TRANSPORT_ODP,
    Capabilities,
    Model,
)
from emu.device.models.board_ports import MAX_PORTS, with_port, with_port_selection
from emu.device.models.crypto import KEY_IMPORTS, KeyImport, with_crypto
from emu.device.models.software_steering import (
    with_software_steering,
    without_software_steering,
)
from emu.device.models.sub_functions import MAX_SUB_FUNCTIONS, with_sub_functions
from emu.device.models.switching import can_switch, with_switch
from emu.device.models.virtual_functions import (
    MAX_VFS,
    virtual_function_of,
    with_virtual_functions,
)
from emu.device.objects.memory.aes import HAS_AES
from emu.device.port.ib.partitions import PKEY_NUMBER
from emu.device.port.ib.port import BASE_GUID, PKEY_TABLE_ENTRIES, SM_LID
from emu.device.state.hca import HcaOptions
from emu.near import near
from emu.server.net.eth.spec import MAX_SEGMENT
from layouts.enums import PortType

MAX_LID = SM_LID - 1
MAX_BOARD = 255
VF_GUIDS_APART = 1 << 11
"""Distance between the default GUIDs of a physical function and its virtual ones. The distance
leaves GUIDs for 128 functions of a server, and is below that of sub-functions."""
MAX_BOOT_PAGES = 512
"""Far above the device's need; each page costs the guest 4 KiB."""


class DeviceSpecError(ValueError):
    """An invalid device specification; the text names the wrong setting."""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A model and the options of a function."""

    model: Model
    options: HcaOptions
    chosen: frozenset[str] = frozenset()
    """Options given explicitly; others have their defaults."""
    segment: int = 0
    """Segment of an Ethernet port."""
    board: int = 0
    """Number of the board that the port shares with another function's; 0 for none."""
    vfs: tuple[DeviceSpec, ...] = ()
    """The virtual functions that the function can enable; :func:`parse_all` sets them."""


def parse(text: str, index: int = 0) -> DeviceSpec:
    """Return the specification in ``text``, ``MODEL[,KEY=VALUE]...``.

    An empty MODEL is the default one. Defaults of ``guid`` and ``lid`` follow from ``index``, the
    function's number. Raises :class:`DeviceSpecError` with a line for each unknown model, setting
    and invalid value. A setting that the model or its link layer does not support raises it, too.
    Boards and duplicates are checked by :func:`parse_all`.
    """
    name, *settings = text.split(",")
    name = name or DEFAULT_MODEL
    wrong: list[str] = []
    if name not in MODELS:
        similar = near(name, MODELS) or f"; known models: {', '.join(MODELS)}"
        wrong.append(f"unknown model {name!r}{similar}")
    chosen: dict[str, Any] = {}
    for setting in settings:
        try:
            key, chosen[key] = _setting(setting)
        except DeviceSpecError as error:
            wrong.append(str(error))
    if wrong:
        raise DeviceSpecError("\n".join(wrong))
    model = _linked(name, chosen)
    values = {
        "guid": BASE_GUID + 16 * index,
        "lid": 1 + index,
        "pages": 0,
        "mac": 0,
        "segment": 0,
        "ib_virt": 1,
        "mw_2a": 0,
        "odp": _schemes(model).index(model.odp),
        "odp_all": 0,
        "pkeys": (),
        "real_time": 0,
        "pps": 0,
        "switch": int(can_switch(model)),
        "bf": 0,
        "crypto": None,
        "sfs": 0,
        "board": 0,
        "port_select": 0,
        "vfs": 0,
        **chosen,
    }
    windows_2a = bool(values["mw_2a"])
    options = HcaOptions(
        values["guid"],
        values["lid"],
        values["pages"],
        windows_2a,
        values["mac"],
        values["pkeys"],
    )
    if not values["ib_virt"]:
        model = replace(model, general={**model.general, "ib_virt": 0})
    if values["real_time"] or values["pps"]:
        model = _with_clock(model, bool(values["real_time"]), bool(values["pps"]))
    if values["bf"]:
        model = replace(model, general={**model.general, "bf": 1})
    if values["crypto"]:
        model = _with_crypto(model, values["crypto"])
    if chosen.keys() & {"odp", "odp_all"}:
        odp = values["odp"]
        scheme = (_ODP_ALL if values["odp_all"] else _schemes(model))[odp]
        model = replace(model, general={**model.general, "pg": int(odp > 0)}, odp=scheme)
    if "smfs" in chosen:
        model = _software_steering(model, chosen["smfs"])
    if values["switch"] or values["sfs"]:
        model = _with_switch(model, values["sfs"])
    if values["vfs"]:
        model = _with_virtual_functions(model, values["vfs"])
    if values["port_select"]:
        model = _port_selection(model, values["board"])
    return DeviceSpec(model, options, frozenset(chosen), values["segment"], values["board"])


def _with_switch(model: Model, sub_functions: int) -> Model:
    """Return the model with an embedded switch, and up to ``sub_functions`` SFs; 0 for none.

    Raises :class:`DeviceSpecError` for a model that can have no switch.
    """
    try:
        return with_sub_functions(model, sub_functions) if sub_functions else with_switch(model)
    except ValueError as error:
        raise DeviceSpecError(f"switch, sfs: {error}") from None


def _with_virtual_functions(model: Model, total: int) -> Model:
    """Return the model of a physical function with ``total`` virtual ones.

    Raises :class:`DeviceSpecError` for a model that can have none.
    """
    try:
        return with_virtual_functions(model, total)
    except ValueError as error:
        raise DeviceSpecError(f"vfs: {error}") from None


def _port_selection(model: Model, board: int) -> Model:
    """Return the model with port selection flow tables.

    Raises :class:`DeviceSpecError` without a board, or for a model that does not support them.
    """
    if not board:
        raise DeviceSpecError("port_select needs board=N")
    try:
        return with_port_selection(model)
    except ValueError as error:
        raise DeviceSpecError(f"port_select: {error}") from None


def _software_steering(model: Model, is_on: int) -> Model:
    """Return the model with flow tables that software may own, or with firmware's only.

    Raises :class:`DeviceSpecError` when the model does not support those of software.
    """
    try:
        return with_software_steering(model) if is_on else without_software_steering(model)
    except ValueError as error:
        raise DeviceSpecError(f"smfs: {error}") from None


def _schemes(model: Model) -> tuple[Capabilities, ...]:
    """Return the on-demand paging schemes of adapters like this one."""
    return _ODP if model.odp in _ODP else _IB_ODP


def _with_crypto(model: Model, key_import: KeyImport) -> Model:
    """Return the model with AES-XTS and this form of key import.

    Raises :class:`DeviceSpecError` without the package cryptography, or for a model without
    AES-XTS.
    """
    if not HAS_AES:
        raise DeviceSpecError("crypto needs the package cryptography: pip install mlx5emu[crypto]")
    try:
        return with_crypto(model, key_import)
    except ValueError as error:
        raise DeviceSpecError(f"crypto: {error}") from None


def _with_clock(model: Model, real_time: bool, pps: bool) -> Model:
    """Return the model with real-time time stamps, PPS pins, or both; a VF never gets pins.

    Raises :class:`DeviceSpecError` for a model without a real-time clock.
    """
    if not model.has_real_time:
        raise DeviceSpecError(f"real_time, pps: {model.name} has no such clock")
    general, roce = dict(model.general), dict(model.roce)
    if real_time:
        general |= {"sq_ts_format": _BOTH_FORMATS, "rq_ts_format": _BOTH_FORMATS}
        roce |= {"qp_ts_format": _BOTH_FORMATS}
    if pps and not model.identity.is_vf:
        general |= {"pps": 1, "pps_modify": 1}
    return replace(model, general=general, roce=roce)


def _setting(text: str) -> tuple[str, Any]:
    """Return key and value of ``KEY=VALUE``. Raises DeviceSpecError."""
    key, equals, value = text.partition("=")
    if key not in SETTINGS:
        similar = near(key, SETTINGS) or f"; known settings: {', '.join(SETTINGS.values())}"
        raise DeviceSpecError(f"{text!r} is no setting{similar}")
    if not equals:
        raise DeviceSpecError(f"{key} needs a value: {SETTINGS[key]}")
    return key, _READERS.get(key, _number)(key, value)


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
                    f" of them another with {SETTINGS[key]}"
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
            try:
                model = with_port(spec.model, ports[spec.board])
            except ValueError as error:
                raise DeviceSpecError(f"board={spec.board}: {error}") from None
            spec = replace(spec, model=model)
        placed.append(spec)
    return placed


def _linked(name: str, chosen: Mapping[str, Any]) -> Model:
    """Return the model with the chosen link layer, by default the first of its adapters.

    Raises :class:`DeviceSpecError` when the model has no such port, or when another chosen setting
    needs the other link layer.
    """
    links = LINKS[name]
    link = PortType(chosen.get("link", next(iter(links))))
    if link not in links:
        raise DeviceSpecError(f"link={link.name.lower()}: {name} has no such port")
    for key, needed in _OF_LINK.items():
        if key in chosen and link is not needed:
            raise DeviceSpecError(f"{key} needs link={needed.name.lower()}")
    return links[link]


_BOTH_FORMATS = 2
"""Both time stamp formats (MLX5_TIMESTAMP_FORMAT_CAP_FREE_RUNNING_AND_REAL_TIME)."""
_ODP: tuple[Capabilities, ...] = ({}, TRANSPORT_ODP, MEMORY_ODP)
_IB_ODP: tuple[Capabilities, ...] = ({}, IB_TRANSPORT_ODP, IB_MEMORY_ODP)
_ODP_ALL: tuple[Capabilities, ...] = ({}, ALL_TRANSPORT_ODP, ALL_MEMORY_ODP)

SETTINGS = {
    "guid": "guid=N",
    "lid": "lid=N",
    "pages": "pages=N",
    "ib_virt": "ib_virt=N",
    "mw_2a": "mw_2a=N",
    "odp": "odp=N",
    "odp_all": "odp_all=N",
    "pkeys": "pkeys=N[:N]...",
    "link": "link=ib|eth",
    "mac": "mac=XX:XX:XX:XX:XX:XX",
    "segment": "segment=N",
    "real_time": "real_time=N",
    "pps": "pps=N",
    "switch": "switch=N",
    "smfs": "smfs=N",
    "bf": "bf=N",
    "crypto": "crypto=plaintext|wrapped",
    "sfs": "sfs=N",
    "board": "board=N",
    "port_select": "port_select=N",
    "vfs": "vfs=N",
}
"""Syntax of each setting."""
_OF_LINK = {
    "lid": PortType.IB,
    "pkeys": PortType.IB,
    "ib_virt": PortType.IB,
    "mac": PortType.ETH,
    "segment": PortType.ETH,
    "real_time": PortType.ETH,
    "pps": PortType.ETH,
    "switch": PortType.ETH,
    "smfs": PortType.ETH,
    "sfs": PortType.ETH,
    "board": PortType.ETH,
    "port_select": PortType.ETH,
}
"""Settings that need a certain link layer."""

_LIMITS = {
    "guid": (1, (1 << 64) - 1),
    "lid": (1, MAX_LID),
    "pages": (0, MAX_BOOT_PAGES),
    "ib_virt": (0, 1),
    "mw_2a": (0, 1),
    "odp": (0, len(_ODP) - 1),
    "odp_all": (0, 1),
    "segment": (0, MAX_SEGMENT),
    "real_time": (0, 1),
    "pps": (0, 1),
    "switch": (0, 1),
    "smfs": (0, 1),
    "bf": (0, 1),
    "sfs": (0, MAX_SUB_FUNCTIONS),
    "board": (0, MAX_BOARD),
    "port_select": (0, 1),
    "vfs": (0, MAX_VFS),
}


def _pkeys(key: str, text: str) -> tuple[int, ...]:
    """Return the P_Keys of a ``:``-separated list (IBTA 10.9.1).

    Raises :class:`DeviceSpecError` for no number, an invalid P_Key, the default partition, a
    partition twice, or more than the P_Key table holds besides the default one.
    """
    try:
        pkeys = tuple(int(part, 0) for part in text.split(":"))
    except ValueError:
        raise DeviceSpecError(f"{key}={text!r} is no list of numbers") from None
    for pkey in pkeys:
        if not 0 < pkey & PKEY_NUMBER < PKEY_NUMBER or not 0 < pkey < 1 << 16:
            raise DeviceSpecError(f"{key}: {pkey:#x} is no valid P_Key, or the default partition's")
    if len(pkeys) >= PKEY_TABLE_ENTRIES or len({pkey & PKEY_NUMBER for pkey in pkeys}) < len(pkeys):
        raise DeviceSpecError(f"{key}: a partition twice, or more than {PKEY_TABLE_ENTRIES - 1}")
    return pkeys


def _number(key: str, text: str) -> int:
    """Return the number in ``text``, decimal or with a prefix such as 0x.

    Raises :class:`DeviceSpecError` for no number, or one outside the limits of ``key``.
    """
    try:
        value = int(text, 0)
    except ValueError:
        raise DeviceSpecError(f"{key}={text!r} is not a number") from None
    low, high = _LIMITS[key]
    if not low <= value <= high:
        limits = [
            f"{limit:#x}" if text.lower().startswith("0x") else str(limit) for limit in (low, high)
        ]
        raise DeviceSpecError(f"{key}={text} is not between {' and '.join(limits)}")
    return value


def _link(key: str, text: str) -> int:
    """Return the PortType for ``ib`` or ``eth``, in lower case.

    Raises :class:`DeviceSpecError` for anything else.
    """
    try:
        return PortType[text.upper()] if text.islower() else PortType[""]
    except KeyError:
        raise DeviceSpecError(f"{key}={text!r} is neither ib nor eth") from None


def _mac(key: str, text: str) -> int:
    """Return the unicast MAC address ``XX:XX:XX:XX:XX:XX`` as a number.

    Raises :class:`DeviceSpecError` for another form, a multicast address, or zero.
    """
    if not re.fullmatch("[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", text, re.ASCII):
        raise DeviceSpecError(f"{key}={text!r} is not a MAC address")
    mac = int(text.replace(":", ""), 16)
    if not mac or mac >> 40 & 1:
        raise DeviceSpecError(f"{key}={text} is not a unicast address")
    return mac


def _crypto(key: str, text: str) -> KeyImport:
    if text not in KEY_IMPORTS:
        raise DeviceSpecError(f"{key}={text!r} is neither {' nor '.join(KEY_IMPORTS)}")
    return KEY_IMPORTS[text]


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    "link": _link, "mac": _mac, "pkeys": _pkeys, "crypto": _crypto,
}  # fmt: skip
