"""Device memory: pages of BAR 0 for processes and queue pairs (hw/dm.c of mlx5_ib)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.memic import MEMIC_PAGE, Memic, MemicArea, MemicOperation
from layouts.enums.cmd import Op, Status
from layouts.memory import memic as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables

_ALLOC, _DEALLOC = 0, 1
"""op_mod of MODIFY_MEMIC (MLX5_MODIFY_MEMIC_OP_MOD_*)."""


def _need(area: MemicArea | None) -> MemicArea:
    if area is None:
        raise CmdError(Status.BAD_OP_ERR, "no device memory")
    return area


def _memic(area: MemicArea, address: int) -> Memic:
    """Return the device memory that starts at this offset in BAR 0; else raise BAD_RES_ERR."""
    memic = area.owner(address, 1)
    if memic is None or area.start + memic.start != address:
        raise CmdError(Status.BAD_RES_ERR, "no device memory begins here", f"{address:#x}")
    return memic


@command(Op.ALLOC_MEMIC, privileged=True)
def alloc_memic(
    tables: ObjectTables, cmd: layout.alloc_memic_in, out: layout.alloc_memic_out
) -> None:
    """Allocate the range that the driver has chosen; the driver itself tracks free pages.

    Refused with NO_RES_ERR when a page is taken: the driver then tries the next one.

    Ranges that are not whole pages get BAD_PARAM_ERR, an alignment above the capability LIM_ERR.
    Without device memory refuse with BAD_OP_ERR.
    """
    area, caps = _need(tables.memic), tables.caps.device_memory
    start, size = cmd.range_start_addr, cmd.range_size
    if start % MEMIC_PAGE or size % MEMIC_PAGE or not 0 < cmd.memic_size <= size:
        raise BadParamError("device memory is not in whole pages", f"{start:#x}+{size:#x}")
    if cmd.log_memic_addr_alignment > caps.log_max_memic_addr_alignment:
        raise CmdError(
            Status.LIM_ERR, "alignment above log_max_memic_addr_alignment",
            f"{cmd.log_memic_addr_alignment}",
        )  # fmt: skip
    if not area.is_free(start, size):
        raise CmdError(Status.NO_RES_ERR, "device memory is not free", f"{start:#x}+{size:#x}")
    memic = Memic(start - area.start, size)
    tables.memics.add(memic)
    area.take(memic)
    out.memic_start_addr = start


@command(Op.DEALLOC_MEMIC, privileged=True)
def dealloc_memic(
    tables: ObjectTables, cmd: layout.dealloc_memic_in, out: layout.dealloc_memic_out
) -> None:
    """Free the memory; refused while a memory key covers it.

    The refusal is BAD_RES_STATE_ERR. An address where no memory begins gets BAD_RES_ERR. The bytes
    are zeroed.
    """
    memic = _memic(_need(tables.memic), cmd.memic_start_addr)
    tables.memics.remove(memic.handle)
    _need(tables.memic).give_back(memic)


@command(Op.MODIFY_MEMIC, privileged=True)
def modify_memic(
    tables: ObjectTables, cmd: layout.modify_memic_in, out: layout.modify_memic_out
) -> None:
    """Map or unmap the addresses of an atomic operation on the memory.

    op_mod 0 maps and returns the address, 1 unmaps; mapping or unmapping twice is no error. Refuse
    an unsupported operation or op_mod with BAD_PARAM_ERR. An address where no memory begins gets
    BAD_RES_ERR.
    """
    memic = _memic(_need(tables.memic), cmd.memic_start_addr)
    number = cmd.memic_operation_type
    if not tables.caps.device_memory.memic_operations & 1 << number:
        raise BadParamError("memic_operation_type not supported", f"{number:#x}")
    operation = MemicOperation(number)
    if cmd.op_mod == _ALLOC:
        memic.operations.add(operation)
        out.memic_operation_addr = _need(tables.memic).operation_address(memic, operation)
    elif cmd.op_mod == _DEALLOC:
        memic.operations.discard(operation)
    else:
        raise BadParamError("op_mod not supported", f"{cmd.op_mod}")
