"""Flow counters of flow table entries (PRM "Flow counters"; core/fs_counters.c).

A function without flow tables has them, too, because DEVX programs create them without a check.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from emu.device.cmdif.registry import command
from emu.device.engine.mr.access import access
from emu.device.engine.mr.access_error import AccessError
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.memory.key_context import ANY_QPN
from emu.device.objects.memory.rights import LOCAL_WRITE
from emu.device.objects.memory.views import copy
from layouts.enums.cmd import Op, Status
from layouts.steering import flow_counter as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_TRAFFIC: Final = Struct(">QQ")
"""Layout of traffic_counter: packets, octets."""


@command(Op.ALLOC_FLOW_COUNTER)
def alloc_flow_counter(
    tables: ObjectTables, cmd: layout.alloc_flow_counter_in, out: layout.alloc_flow_counter_out
) -> None:
    """Create one counter or a bulk, at zero; return the number of the first one.

    Refuse a bulk size other than flow_counter_bulk_alloc with BAD_PARAM_ERR.
    """
    if cmd.flow_counter_bulk not in (0, tables.caps.general.flow_counter_bulk_alloc):
        raise BadParamError("flow counter bulk size not supported", f"{cmd.flow_counter_bulk:#x}")
    if cmd.flow_counter_bulk_log_size:
        raise BadParamError("flow_counter_bulk_log_size is not supported")
    counters = tables.flow_counters
    out.flow_counter_id = counters.add_bulk() if cmd.flow_counter_bulk else counters.add()


@command(Op.DEALLOC_FLOW_COUNTER)
def dealloc_flow_counter(
    tables: ObjectTables, cmd: layout.dealloc_flow_counter_in, out: layout.dealloc_flow_counter_out
) -> None:
    """Destroy the counter, or the bulk that begins with it; refused while an entry uses it.

    A number inside a bulk gets BAD_RES_STATE_ERR.
    """
    tables.flow_counters.remove(cmd.flow_counter_id)


@command(Op.QUERY_FLOW_COUNTER)
def query_flow_counter(
    hca: Hca, cmd: layout.query_flow_counter_in, out: layout.query_flow_counter_out
) -> None:
    """Return packets and bytes; ``clear`` zeroes them.

    A range may include numbers without a counter of the caller's, which read as zeros: the driver's
    ranges begin and end at multiples of four. With ``dump_to_memory`` the values are written behind
    a memory key of the caller's instead.

    A single unknown counter gets BAD_RES_ERR. Refuse with BAD_PARAM_ERR more than
    log_max_flow_counter_bulk allows, and memory that cannot be written; a short output gets
    BAD_OUTP_LEN_ERR.
    """
    if cmd.num_of_counters > 1 << hca.caps.general.log_max_flow_counter_bulk:
        raise BadParamError(
            "num_of_counters above log_max_flow_counter_bulk", f"{cmd.num_of_counters}"
        )
    first = cmd.flow_counter_id
    number = cmd.num_of_counters or 1
    if number == 1:
        hca.flow_counters.need(first)
    counters = [hca.flow_counters.usable(first + n) for n in range(number)]
    if cmd.dump_to_memory:
        _dump(hca, cmd, counters)
    else:
        _answer(out, counters)
    if cmd.clear:
        for counter in counters:
            if counter is not None:
                counter.packets = counter.octets = 0


def _answer(out: layout.query_flow_counter_out, counters: Sequence[FlowCounter | None]) -> None:
    """Write the counters into ``out``, zeros for None; a short output raises BAD_OUTP_LEN_ERR."""
    number = len(counters)
    if len(out.flow_statistics) < number:
        raise CmdError(Status.BAD_OUTP_LEN_ERR, "output is too short for the counters", f"{number}")
    for counter, place in zip(counters, out.flow_statistics, strict=False):
        if counter is not None:
            place.packets, place.octets = counter.packets, counter.octets


def _dump(
    hca: Hca, cmd: layout.query_flow_counter_in, counters: Sequence[FlowCounter | None]
) -> None:
    """Write a traffic_counter for each; DPDK's mlx5_flow_query_alarm reads a whole pool.

    A missing counter is written as zeros. Raises BAD_PARAM_ERR without the capability or for memory
    that cannot be written, BAD_RES_ERR for an unknown mkey.
    """
    if not hca.caps.general.flow_counters_dump:
        raise BadParamError("counters cannot be written into memory")
    values = [(0, 0) if one is None else (one.packets, one.octets) for one in counters]
    data = b"".join([_TRAFFIC.pack(*pair) for pair in values])
    key = hca.mkeys.need(cmd.mkey >> 8)
    span = (int(cmd.address), len(data), LOCAL_WRITE)
    try:
        views = access(hca, key.pd, ANY_QPN, int(cmd.mkey), span)
    except AccessError as error:
        raise BadParamError(
            "mkey or address of the counters cannot be written", str(error)
        ) from None
    copy(views, (memoryview(data),))
