"""Non-volatile configuration (PRM "MNVDA"; core/lib/nv_param.c of Linux 7.2).

``devlink dev param show`` reads from it the settings of the next reset: SR-IOV, the kind of
completion compression, checksums of software parsers. The adapter has none of the three, so all
items are zeros and no item can be changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.errors import BadParamError

if TYPE_CHECKING:
    from layouts.regs.nv_regs import mnvda_reg

_GLOBAL, _PER_HOST_PF = 0, 3
_CLASS_SHIFT = 24
_INDEX_MASKS = {_GLOBAL: (1 << 24) - 1, _PER_HOST_PF: (1 << 10) - 1}
_ITEMS = {
    # MLX5_CLASS_0_CTRL_ID_NV_*: GLOBAL_PCI_CONF and _CAP, SW_OFFLOAD_CONFIG and _CAP,
    # SW_ACCELERATE_CONF.
    _GLOBAL: {0x80, 0x81, 0x10A, 0x10B, 0x11D},
    _PER_HOST_PF: {0x80},  # MLX5_CLASS_3_CTRL_ID_NV_PF_PCI_CONF
}


def mnvda(_: object, reg: mnvda_reg) -> None:
    """Fill in an item, equal in all access modes (next, current, default); refuse unknown items.

    The data are zeros. The refusal is BAD_PARAM_ERR.
    """
    type_ = reg.configuration_item_header.type
    kind = type_ >> _CLASS_SHIFT
    if type_ & _INDEX_MASKS.get(kind, 0) not in _ITEMS.get(kind, ()):
        raise BadParamError("unknown configuration item", f"{type_:#x}")
    reg.configuration_item_data = bytes(len(reg.configuration_item_data))
