"""Adapters with virtual functions by SR-IOV: the physical function's model and that of each VF.

Virtual functions (VFs) are an option of a physical function, see :func:`with_virtual_functions`.

Source: core/sriov.c: mlx5_sriov_init, core/eswitch.c: mlx5_eswitch_init.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from emu.device.models.adapters import LINKS
from emu.device.models.model import Model
from emu.device.models.switching import with_switch
from emu.device.objects.memory.memic import MEMIC_BYTES
from layouts.enums.caps import PortType

MAX_VFS: Final = 31
"""Maximum number of virtual functions of a physical function."""

VF_BAR_BYTES: Final = 1 << 20
"""Bytes of BAR 0 of each VF, as on adapters: 152 UAR pages, or 248 without device memory."""


def with_virtual_functions(model: Model, total: int) -> Model:
    """Return the model of a physical function with ``total`` VFs, 1 to MAX_VFS.

    With an Ethernet port the function also gets its switch, which connects the VFs. Raises
    ValueError for a VF's model, and for an adapter that can have no switch; ``total`` is not
    checked.
    """
    if model.identity.is_vf:
        raise ValueError(f"{model.name} is a virtual function itself")
    if model.port_type is PortType.ETH:
        model = with_switch(model)
    else:
        model = model.extended(general={"vport_group_manager": 1})
    return replace(model, total_vfs=total)


def virtual_function_of(model: Model) -> Model:
    """Return the model of each VF of this physical function, with a BAR 0 of VF_BAR_BYTES.

    Raises KeyError for the model of a VF.
    """
    vf = LINKS[f"{model.name}-vf"][model.port_type]
    if vf.device_memory:
        vf = vf.extended(device_memory={"memic_bar_start_addr": VF_BAR_BYTES - MEMIC_BYTES})
    return replace(vf, bar0_size=VF_BAR_BYTES)
