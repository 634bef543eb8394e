"""Port timestamps of sent packets: a separate CQE for PTP (private flag tx_port_ts).

The send queue's context names a second CQ. Its CQE carries the packet's number, the lower bits of
the WQE's flow_table_metadata, and has the format of a receive CQE.

Source: PRM "ts_cqe_to_dest_cqn"; core/en/ptp.c: mlx5e_ptp_handle_ts_cqe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from emu.device.objects.eth.sq import Sq
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.send_queue import Wqe
from layouts.enums.cqe import CqeOpcode
from layouts.rings.cqe import CQE, TIME_MASK
from layouts.rings.eth_wqe import ETH
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.completions import Completions

_OP_OWN: Final = CqeOpcode.RESP_SEND << 4


def complete_timestamp(cqes: Completions, caps: Caps, sq: Sq, cq: Cq, wqe: Wqe, now: int) -> None:
    """Write the port timestamp CQE of a packet that was sent at ``now`` to ``cq``.

    wqe_counter has the lower bits of the WQE's metadata. A lost CQE counts as cq_overflow.
    """
    metadata = ETH.unpack_from(wqe.buf, DS)[2]
    number = metadata & (1 << caps.general_2.ts_cqe_metadata_size2wqe_counter) - 1
    entry = CQE.pack(0, 0, 0, sq.uidx or 0, 0, 0, now & TIME_MASK, sq.handle, number)
    completions.report(cqes, cq, sq, entry, _OP_OWN, False)
