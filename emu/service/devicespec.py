"""How the command line names a device: ``MODEL[,KEY=VALUE]...``.

``connectx6``, ``connectx6-vf,lid=7``, ``connectx5,pages=16``: a model of ``emu.models`` and options
of the function. With ``ib_virt=0`` the driver queries the port by MAD_IFC, as with old firmware;
with ``mw_2a=1`` type 2 memory windows are of type 2A instead of 2B. ``odp`` is 0 for no on-demand
paging, 1 for the transport scheme, 2 for the memory scheme as well; the default is the model's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from emu.device.hca import HcaOptions
from emu.models import DEFAULT_MODEL, MEMORY_ODP, MODELS, TRANSPORT_ODP, Capabilities, Model
from emu.port.ib.port import BASE_GUID, SM_LID

MAX_LID = SM_LID - 1
MAX_BOOT_PAGES = 512
"""Far more than the device needs; each costs the guest 4 KiB."""


class DeviceSpecError(ValueError):
    """An invalid device specification; the text says which part is wrong."""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A model and the options of one function of it."""

    model: Model
    options: HcaOptions
    chosen: frozenset[str] = frozenset()
    """The options given explicitly; the others have their defaults."""


def parse(text: str, index: int = 0) -> DeviceSpec:
    """Parse a specification; ``index`` is the function's number, which determines the defaults.

    Raises :class:`DeviceSpecError`.
    """
    name, *settings = text.split(",")
    model = MODELS.get(name or DEFAULT_MODEL)
    if model is None:
        raise DeviceSpecError(f"unknown model {name!r}; known are {', '.join(MODELS)}")
    chosen: set[str] = set()
    values = {
        "guid": BASE_GUID + 16 * index,
        "lid": 1 + index,
        "pages": 0,
        "ib_virt": 1,
        "mw_2a": 0,
        "odp": _ODP.index(model.odp),
    }
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in values:
            raise DeviceSpecError(f"{setting!r} is none of {', '.join(f'{k}=N' for k in values)}")
        values[key] = _number(key, value)
        chosen.add(key)
    windows_2a = bool(values["mw_2a"])
    options = HcaOptions(values["guid"], values["lid"], values["pages"], windows_2a)
    if not values["ib_virt"]:
        model = replace(model, general={**model.general, "ib_virt": 0})
    if "odp" in chosen:
        odp = values["odp"]
        model = replace(model, general={**model.general, "pg": int(odp > 0)}, odp=_ODP[odp])
    return DeviceSpec(model, options, frozenset(chosen))


_ODP: tuple[Capabilities, ...] = ({}, TRANSPORT_ODP, MEMORY_ODP)

_LIMITS = {
    "guid": (1, (1 << 64) - 1),
    "lid": (1, MAX_LID),
    "pages": (0, MAX_BOOT_PAGES),
    "ib_virt": (0, 1),
    "mw_2a": (0, 1),
    "odp": (0, len(_ODP) - 1),
}


def _number(key: str, text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise DeviceSpecError(f"{key}={text!r} is not a number") from None
    low, high = _LIMITS[key]
    if not low <= value <= high:
        raise DeviceSpecError(f"{key}={value:#x} is not between {low:#x} and {high:#x}")
    return value
