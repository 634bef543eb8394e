"""A model with the chosen settings, in its capabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from emu.device.models import LINKS, Capabilities, Model
from emu.device.models import capabilities as caps
from emu.device.models.board_ports import with_port_selection
from emu.device.models.crypto import with_crypto
from emu.device.models.real_time import with_real_time
from emu.device.models.software_steering import with_software_steering, without_software_steering
from emu.device.models.sub_functions import with_sub_functions
from emu.device.models.switching import can_switch, with_switch
from emu.device.models.virtual_functions import with_virtual_functions
from emu.device.objects.memory.aes import HAS_AES
from emu.server.service.devicespec.settings import SETTINGS, DeviceSpecError
from layouts.enums.caps import PortType

_ODP: tuple[Capabilities, ...] = ({}, caps.TRANSPORT_ODP, caps.MEMORY_ODP)
_IB_ODP: tuple[Capabilities, ...] = ({}, caps.IB_TRANSPORT_ODP, caps.IB_MEMORY_ODP)
_ODP_ALL: tuple[Capabilities, ...] = ({}, caps.ALL_TRANSPORT_ODP, caps.ALL_MEMORY_ODP)


@contextmanager
def naming(settings: str) -> Iterator[None]:
    """Raise :class:`DeviceSpecError` that names the settings for a ValueError of the body."""
    try:
        yield
    except ValueError as error:
        raise DeviceSpecError(f"{settings}: {error}") from None


def linked(name: str, chosen: Mapping[str, Any]) -> Model:
    """Return the model with the chosen link layer, by default the first of its adapters.

    Raises :class:`DeviceSpecError` when the model has no such port, or when another chosen setting
    needs the other link layer.
    """
    links = LINKS[name]
    link = PortType(chosen.get("link", next(iter(links))))
    if link not in links:
        raise DeviceSpecError(f"link={link.name.lower()}: {name} has no such port")
    for key, setting in SETTINGS.items():
        needed = setting.link
        if key in chosen and needed not in (None, link):
            raise DeviceSpecError(f"{key} needs link={needed.name.lower()}")
    return links[link]


def with_settings(model: Model, chosen: Mapping[str, Any]) -> Model:
    """Return the model with the chosen settings that are capabilities, and with its switch.

    Raises :class:`DeviceSpecError` for one that the model does not support, and for
    ``port_select`` without a board.
    """
    if not chosen.get("ib_virt", 1):
        model = _with_general(model, ib_virt=0)
    if chosen.get("real_time") or chosen.get("pps"):
        with naming("real_time, pps"):
            model = with_real_time(model, chosen.get("real_time", 0), chosen.get("pps", 0))
    if chosen.get("bf"):
        model = _with_general(model, bf=1)
    if "crypto" in chosen:
        if not HAS_AES:
            raise DeviceSpecError(
                "crypto needs the package cryptography: pip install mlx5emu[crypto]"
            )
        with naming("crypto"):
            model = with_crypto(model, chosen["crypto"])
    if chosen.keys() & {"odp", "odp_all"}:
        model = _with_odp(model, chosen)
    if "smfs" in chosen:
        with naming("smfs"):
            change = with_software_steering if chosen["smfs"] else without_software_steering
            model = change(model)
    if chosen.get("switch", can_switch(model)) or chosen.get("sfs"):
        with naming("switch, sfs"):
            sfs = chosen.get("sfs")
            model = with_sub_functions(model, sfs) if sfs else with_switch(model)
    if chosen.get("vfs"):
        with naming("vfs"):
            model = with_virtual_functions(model, chosen["vfs"])
    if chosen.get("port_select"):
        if not chosen.get("board"):
            raise DeviceSpecError("port_select needs board=N")
        with naming("port_select"):
            model = with_port_selection(model)
    return model


def _with_general(model: Model, **values: int) -> Model:
    return replace(model, general={**model.general, **values})


def _with_odp(model: Model, chosen: Mapping[str, Any]) -> Model:
    """Return the model with the chosen on-demand paging: a scheme, for all operations or usual."""
    usual = _ODP if model.odp in _ODP else _IB_ODP
    scheme = chosen.get("odp", usual.index(model.odp))
    odp = (_ODP_ALL if chosen.get("odp_all") else usual)[scheme]
    return replace(_with_general(model, pg=int(scheme > 0)), odp=odp)
