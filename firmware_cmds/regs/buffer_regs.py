"""Registers of the receive buffers (PRM "PPTB", "PBMC", "SBCAM", "SBPR", "SBCM").

The driver reads and writes them for ``dcb buffer`` and when it changes flow control by priority
(core/en/port_buffer.c).
"""

from __future__ import annotations

from emu.device.errors import BadParamError
from emu.device.port.eth import buffers as port_buffers
from emu.device.port.eth.buffers import BufferQuota, Pool, PortBuffers
from emu.device.port.eth.qos import PRIORITIES
from firmware_cmds.regs.registers import AccessRegister, of_part
from layouts.enums.regs import RegId
from layouts.regs import qos_regs as layout

_BUFFER_BITS = 4
_BUFFER_MASK = 0xF


def _pptb(buffers: PortBuffers, reg: layout.pptb_reg) -> None:
    """Fill in the buffer of each priority; untagged frames are priority 0."""
    table = buffers.of_priority
    reg.prio_x_buff = sum(number << _BUFFER_BITS * prio for prio, number in enumerate(table))
    reg.untagged_buff, reg.ctrl_buff = table[0], 0


def _set_pptb(buffers: PortBuffers, reg: layout.pptb_reg) -> None:
    """Set the buffers of the priorities in the mask ``pm``.

    Refuse a buffer that does not exist with BAD_PARAM_ERR; no priority is then changed.
    """
    table = bytearray(buffers.of_priority)
    for prio in range(PRIORITIES):
        number = reg.prio_x_buff >> _BUFFER_BITS * prio & _BUFFER_MASK
        if reg.pm >> prio & 1:
            if number >= port_buffers.NETWORK_BUFFERS:
                raise BadParamError("no such receive buffer", f"{number}")
            table[prio] = number
    buffers.of_priority[:] = table
    _pptb(buffers, reg)


def _pbmc(buffers: PortBuffers, reg: layout.pbmc_reg) -> None:
    """Fill in sizes and thresholds, in cells."""
    reg.port_buffer_size = port_buffers.CELLS
    for entry, buffer in zip(reg.buffer, buffers.buffers):
        entry.lossy, entry.epsb, entry.size = buffer.lossy, 0, buffer.size
        entry.xoff_threshold, entry.xon_threshold = buffer.xoff, buffer.xon


def _set_pbmc(buffers: PortBuffers, reg: layout.pbmc_reg) -> None:
    """Set sizes and thresholds of all receive buffers, in cells; fill in the result.

    Refuse with BAD_PARAM_ERR more than the port's memory, and thresholds of a lossless buffer that
    do not fit.
    """
    entries = tuple(reg.buffer)
    total = sum(entry.size for entry in entries)
    if total > port_buffers.CELLS:
        raise BadParamError("receive buffers larger than the port's memory", f"{total}")
    for entry in entries:
        if not entry.lossy and not entry.xon_threshold <= entry.xoff_threshold <= entry.size:
            raise BadParamError(
                "thresholds of a receive buffer do not fit its size",
                f"xon {entry.xon_threshold}, xoff {entry.xoff_threshold}, size {entry.size}",
            )  # fmt: skip
    for entry, buffer in zip(entries, buffers.buffers):
        buffer.size, buffer.lossy = entry.size, bool(entry.lossy)
        buffer.xoff, buffer.xon = entry.xoff_threshold, entry.xon_threshold
    _pbmc(buffers, reg)


def _sbcam(_: object, reg: layout.sbcam_reg) -> None:
    """Fill in the unit of sizes, and the size of the shared buffer."""
    reg.cap_total_buffer_size = port_buffers.CELLS
    reg.cap_cell_size = port_buffers.CELL_BYTES
    reg.cap_max_pg_buffers = port_buffers.NETWORK_BUFFERS
    reg.cap_num_pool_supported = port_buffers.POOLS


def _pool_of(buffers: PortBuffers, reg: layout.sbpr_reg) -> Pool:
    """Return the pool of a direction and number.

    Descriptors (``desc``) have no pools of their own; they share those of cells. Raises
    BAD_PARAM_ERR for an unknown one.
    """
    pool = buffers.pools.get((reg.dir, reg.pool))
    if pool is None:
        raise BadParamError("no such buffer pool", f"{reg.pool}")
    return pool


def _sbpr(buffers: PortBuffers, reg: layout.sbpr_reg) -> None:
    pool = _pool_of(buffers, reg)
    reg.size, reg.infi_size, reg.mode = pool.size, pool.infinite, pool.mode
    reg.buff_occupancy = reg.max_buff_occupancy = reg.ext_buff_occupancy = 0


def _set_sbpr(buffers: PortBuffers, reg: layout.sbpr_reg) -> None:
    """Set a pool's size, mode and infinity; refuse a size above the memory with BAD_PARAM_ERR."""
    pool = _pool_of(buffers, reg)
    if reg.size > port_buffers.CELLS:
        raise BadParamError("buffer pool larger than the port's memory", f"{reg.size}")
    pool.size, pool.infinite, pool.mode = reg.size, bool(reg.infi_size), reg.mode
    _sbpr(buffers, reg)


def _quota_key(reg: layout.sbcm_reg) -> tuple[int, int]:
    if reg.pg_buff >= port_buffers.NETWORK_BUFFERS or reg.dir >= port_buffers.DIRECTIONS:
        raise BadParamError("no such receive buffer", f"{reg.pg_buff}")
    return reg.dir, reg.pg_buff


def _sbcm(buffers: PortBuffers, reg: layout.sbcm_reg) -> None:
    """Fill in the quota of a receive buffer in a pool; without a setting, the default one."""
    share = buffers.shares.get(_quota_key(reg), BufferQuota())
    reg.pool, reg.infi_max = share.pool, share.infinite
    reg.min_buff, reg.max_buff = share.least, share.most
    reg.exc = reg.buff_occupancy = reg.max_buff_occupancy = 0


def _set_sbcm(buffers: PortBuffers, reg: layout.sbcm_reg) -> None:
    """Set a receive buffer's quota in a pool; an unknown pool or buffer gets BAD_PARAM_ERR."""
    key = _quota_key(reg)
    if reg.pool >= port_buffers.POOLS:
        raise BadParamError("no such buffer pool", f"{reg.pool}")
    share = BufferQuota(reg.pool, reg.min_buff, reg.max_buff, bool(reg.infi_max))
    buffers.shares[key] = share
    _sbcm(buffers, reg)


_REGISTERS: dict[int, AccessRegister[PortBuffers]] = {
    RegId.PPTB: AccessRegister(layout.pptb_reg, _pptb, _set_pptb, gate="sbcam_reg", is_shared=True),
    RegId.PBMC: AccessRegister(layout.pbmc_reg, _pbmc, _set_pbmc, gate="sbcam_reg", is_shared=True),
    RegId.SBCAM: AccessRegister(layout.sbcam_reg, _sbcam, gate="sbcam_reg"),
    RegId.SBPR: AccessRegister(layout.sbpr_reg, _sbpr, _set_sbpr, gate="sbcam_reg", is_shared=True),
    RegId.SBCM: AccessRegister(layout.sbcm_reg, _sbcm, _set_sbcm, gate="sbcam_reg", is_shared=True),
}
REGISTERS = of_part(lambda hca: hca.eth.buffers, _REGISTERS)
"""Registers of an Ethernet function."""
