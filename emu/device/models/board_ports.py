"""A board with two physical ports, each with a physical function.

It is an option of adapters, see :func:`with_port`.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from emu.device.models.model import Model
from layouts.enums import PortType


def with_port(model: Model, number: int) -> Model:
    """The model as the function of a board's port ``number``, from 1 on.

    Raises ValueError for one that cannot share a board: its port is not its own, or not Ethernet.
    """
    if model.port_type is not PortType.ETH or model.identity.is_vf:
        raise ValueError("only physical functions with Ethernet ports share a board")
    general = {**model.general, "native_port_num": number}
    return replace(model, general=MappingProxyType(general))
