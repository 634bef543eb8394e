"""The settings of a device: the syntax and the limits of each value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emu.device.models.crypto import KEY_IMPORTS, KeyImport
from emu.device.models.sub_functions import MAX_SUB_FUNCTIONS
from emu.device.models.virtual_functions import MAX_VFS
from emu.device.port.ib.port import PKEY_TABLE_ENTRIES, SM_LID
from emu.device.port.partitions import PKEY_NUMBER
from emu.near import near
from emu.server.net.eth.spec import MAX_SEGMENT
from layouts.enums.caps import PortType

MAX_LID = SM_LID - 1
MAX_BOARD = 255
MAX_BOOT_PAGES = 512
"""Far above the device's need; each page costs the guest 4 KiB."""
MAX_ODP = 2
_MAX_GUID = (1 << 64) - 1


class DeviceSpecError(ValueError):
    """An invalid device specification; the text names the wrong setting."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: the reader and the form of its value, and the link layer that it needs."""

    read: Callable[[str, str], Any]
    """Returns the value of a setting and its text. Raises :class:`DeviceSpecError`."""
    link: PortType | None = None
    form: str = "N"


def syntax(key: str) -> str:
    """Return the form ``KEY=VALUE`` of a setting."""
    return f"{key}={SETTINGS[key].form}"


def read_setting(text: str) -> tuple[str, Any]:
    """Return key and value of ``KEY=VALUE``. Raises DeviceSpecError."""
    key, equals, value = text.partition("=")
    if key not in SETTINGS:
        similar = near(key, SETTINGS) or f"; known settings: {', '.join(map(syntax, SETTINGS))}"
        raise DeviceSpecError(f"{text!r} is no setting{similar}")
    if not equals:
        raise DeviceSpecError(f"{key} needs a value: {syntax(key)}")
    return key, SETTINGS[key].read(key, value)


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


def _number(low: int, high: int) -> Callable[[str, str], int]:
    """Return a reader of numbers from ``low`` to ``high``, decimal or with a prefix such as 0x.

    The reader raises :class:`DeviceSpecError` for no number, or one outside these limits.
    """

    def read(key: str, text: str) -> int:
        try:
            value = int(text, 0)
        except ValueError:
            raise DeviceSpecError(f"{key}={text!r} is not a number") from None
        if not low <= value <= high:
            form = "#x" if text.lower().startswith("0x") else "d"
            raise DeviceSpecError(f"{key}={text} is not between {low:{form}} and {high:{form}}")
        return value

    return read


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


_FLAG = _number(0, 1)
SETTINGS: Mapping[str, Setting] = {
    "guid": Setting(_number(1, _MAX_GUID)),
    "lid": Setting(_number(1, MAX_LID), PortType.IB),
    "pages": Setting(_number(0, MAX_BOOT_PAGES)),
    "ib_virt": Setting(_FLAG, PortType.IB),
    "mw_2a": Setting(_FLAG),
    "odp": Setting(_number(0, MAX_ODP)),
    "odp_all": Setting(_FLAG),
    "pkeys": Setting(_pkeys, PortType.IB, "N[:N]..."),
    "link": Setting(_link, form="ib|eth"),
    "mac": Setting(_mac, PortType.ETH, "XX:XX:XX:XX:XX:XX"),
    "segment": Setting(_number(0, MAX_SEGMENT), PortType.ETH),
    "real_time": Setting(_FLAG, PortType.ETH),
    "pps": Setting(_FLAG, PortType.ETH),
    "switch": Setting(_FLAG, PortType.ETH),
    "smfs": Setting(_FLAG, PortType.ETH),
    "bf": Setting(_FLAG),
    "crypto": Setting(_crypto, form="plaintext|wrapped"),
    "sfs": Setting(_number(0, MAX_SUB_FUNCTIONS), PortType.ETH),
    "board": Setting(_number(0, MAX_BOARD), PortType.ETH),
    "port_select": Setting(_FLAG, PortType.ETH),
    "vfs": Setting(_number(0, MAX_VFS)),
}
