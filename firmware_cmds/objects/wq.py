"""Work queues of the Ethernet objects: shared checks of CREATE_SQ and CREATE_RQ (PRM "WQ")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.pages import PageList, queue_buffer
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import DRIVER_UID, holding
from emu.device.objects.queues.geometry import RqGeometry
from emu.device.rounds.portions import Portions
from firmware_cmds.objects.umem import buffer_in, record_in
from firmware_cmds.options import first_set
from layouts.enums.cmd import Status
from layouts.enums.wq import RqState, SqState
from layouts.rings.cqe import SCATTER_32_BYTES, SCATTER_64_BYTES

if TYPE_CHECKING:
    from emu.device.objects.object import CommandIssuer
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from layouts.objects.srq import wq
    from layouts.prm import Prm

StateT = TypeVar("StateT", RqState, SqState)

_NOT_BUILT = (
    "wq_signature", "cd_slave", "hds_skip_first_sge", "log_hairpin_num_packets",
    "log_hairpin_data_sz",
)  # fmt: skip
"""Fields of a wq whose features have capability bits, none of which is set."""


_DEFAULT_UIDX = 0xFFFFFF
"""User index of queues whose owner finds them by number (MLX5_IB_DEFAULT_UIDX)."""


def user_index(caps: Caps, index: int) -> int | None:
    """Return the index by which completions name the queue; None for its number.

    A process chooses its indices, and finds its queues by them (version 1 of completions). The
    kernel, and libraries that know only version 0, find queues by number. No error is raised.
    """
    return index if caps.general.cqe_version and index != _DEFAULT_UIDX else None


_RESPONSE_SCATTER = {1: SCATTER_32_BYTES, 2: SCATTER_64_BYTES}
"""Bytes of scattered data by cs_res (MLX5_RES_SCAT_DATA32_CQE and 64)."""


def response_scatter(caps: Caps, cs_res: int) -> int:
    """Return the bytes of a message that its completion may contain (cs_res of a qpc or a dctc).

    Return 0 for none: without the capability sctr_data_cqe, or for an unknown cs_res.
    """
    return _RESPONSE_SCATTER.get(cs_res, 0) if caps.general.sctr_data_cqe else 0


class WorkQueue(NamedTuple):
    """Addresses of a queue's WQEs and doorbell record."""

    buffer: PageList
    geometry: RqGeometry
    umems: tuple[Umem, ...]


_REAL_TIME = 2
"""Value of ts_format for the clock that the driver sets; 0 and 1, the default, mean the
free-running one.
"""


def real_time(ts_format: int, supported: int) -> bool:
    """Return whether completions carry the time of day; ``supported`` is the capability for it.

    Raises BAD_PARAM_ERR for the real-time format without the capability, and for an unknown one.
    """
    if ts_format > _REAL_TIME or (ts_format == _REAL_TIME and not supported):
        raise BadParamError("ts_format not supported", f"{ts_format}")
    return ts_format == _REAL_TIME


def refuse_set(ctx: Prm, names: tuple[str, ...]) -> None:
    """Raise BAD_PARAM_ERR when the context sets one of ``names``, which are not built."""
    if name := first_set(ctx, names):
        raise BadParamError("queue option not supported", name)


def refuse_to_processes(caller: CommandIssuer, ctx: Prm, names: tuple[str, ...]) -> None:
    """Raise BAD_PARAM_ERR when a process sets a field reserved for the driver's own queues."""
    if caller.uid != DRIVER_UID:
        refuse_set(ctx, names)


_ALIGN = 1
"""Value of end_padding_mode: a packet's end may be padded to a cache line
(MLX5_WQ_END_PAD_MODE_ALIGN).
"""


def check_end_padding(end_padding_mode: int) -> None:
    """Raise BAD_PARAM_ERR for an unknown mode.

    The adapter pads in neither mode: writing behind a packet is allowed, not required.
    """
    if end_padding_mode > _ALIGN:
        raise BadParamError("end_padding_mode not supported", f"{end_padding_mode}")


def work_queue(hca: Hca, wq: wq, *, is_sq: bool = False) -> Portions[WorkQueue]:
    """Return the queue that the context and the page list behind it describe.

    OpenBSD's if_mcx.c gives a send queue the address of its record's second word, where it writes
    the producer counter. Adapters accept it because they ignore the low bits.

    The caller has checked type and stride. Raises LIM_ERR for more WQEs than log_max_qp_sz. Raises
    BAD_PARAM_ERR for an option that is not built, and for a buffer or record outside the umem or
    the guest.
    """
    refuse_set(wq, _NOT_BUILT)
    check_end_padding(wq.end_padding_mode)
    if wq.log_wq_sz > hca.caps.general.log_max_qp_sz:
        raise CmdError(Status.LIM_ERR, "log_wq_sz above log_max_qp_sz", f"{wq.log_wq_sz}")
    size = 1 << wq.log_wq_sz + wq.log_wq_stride
    dbr_addr, umems = record_in(hca.umems, hca.memory, wq, is_rounded=is_sq)
    if wq.wq_umem_valid:
        buffer, umem = buffer_in(hca.umems, wq.wq_umem_id, wq.wq_umem_offset, size)
        umems = (*umems, umem)
    else:
        with holding(*umems):
            buffer = yield from queue_buffer(
                hca.memory, wq.pas, wq.log_wq_pg_sz, wq.page_offset, size
            )
    geometry = RqGeometry(wq.log_wq_sz, wq.log_wq_stride, wq.log_wq_pg_sz, wq.page_offset, dbr_addr)
    return WorkQueue(buffer, geometry, umems)


def check_transition(
    transitions: Mapping[StateT, tuple[StateT, ...]], state: StateT, expected: int, target: int
) -> StateT:
    """Return the next state; raise BAD_RES_STATE_ERR unless the queue is in ``expected``.

    ``target`` is the state in the command's context. Raises BAD_PARAM_ERR if no transition from
    ``state`` reaches it.
    """
    if expected != state:
        raise CmdError(
            Status.BAD_RES_STATE_ERR, "queue is not in curr_state", f"{state.name}, not {expected}"
        )
    if target not in transitions[state]:
        raise BadParamError("no transition leads to this state", f"from {state.name} to {target}")
    return type(state)(target)
