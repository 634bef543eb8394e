"""Flow tables of RoCE packets: RDMA_RX before the transport, RDMA_TX before the wire.

Without a root, messages inside the process bypass these tables and stay messages. With a root they
become packets, so that each packet can be counted and dropped. Packets that match no entry continue
as without tables. A miss action of RDMA_RX can pass them to the NIC_RX tables instead.

Sources: PRM "Flow steering"; core/fs_core.c: rdma_rx_root_fs, rdma_tx_root_fs.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from emu.device.engine.eth.steering.domain import decide
from emu.device.objects.eth.flow.domain import FlowDomain
from emu.device.port.eth.headers import Headers, Marked, parse, source_of

if TYPE_CHECKING:
    from emu.device.port.eth.roce.link import RoceLink
    from emu.device.rounds.budget import Budget
    from emu.device.state.hca import Hca


class RdmaVerdict(Enum):
    """Outcome of a packet's flow tables."""

    ON = "on"
    SWITCHED = "to the next domain"
    DROPPED = "dropped"


def receive(
    hca: Hca, frame: bytes, source_port: int, registers: Mapping[int, int] | None
) -> RdmaVerdict:
    """Steer a well-formed RoCE frame for the function through RDMA_RX, before its transport.

    Return ON where the transport takes it (a miss, or no root), SWITCHED where NIC_RX takes it,
    DROPPED otherwise. ``source_port`` is the source vPort. Only the manager of a switch can match
    it, which drivers up to 6.1 do (core/rdma.c: mlx5_rdma_enable_roce_steering).
    """
    domain = hca.rdma_rx
    if domain.root is None:
        return RdmaVerdict.ON
    headers = parse(frame)
    if hca.eswitch is not None or registers:
        owner = hca.adapter.manager.number
        headers = Marked(headers, registers or {}, source_of(source_port, owner))
    return _through(hca.budget, hca.roce, domain, headers)


def send(hca: Hca, frame: bytes, sqn: int) -> RdmaVerdict:
    """Steer a RoCE frame of the function's QP ``sqn`` through RDMA_TX, before it leaves.

    Return ON where the frame leaves (also a miss, or no root), DROPPED where an entry drops it.
    """
    domain = hca.rdma_tx
    if domain.root is None:
        return RdmaVerdict.ON
    headers = parse(frame)
    headers.sqn = sqn
    return _through(hca.budget, hca.roce, domain, headers)


def _through(budget: Budget, roce: RoceLink, domain: FlowDomain, headers: Headers) -> RdmaVerdict:
    """Return the verdict of a domain about a packet; count a drop in ``hca.roce.dropped``."""
    before = domain.steps
    decision = decide(domain, headers, len(headers.frame))
    budget.charge(domain.steps - before)
    if decision.allowed or decision.missed:
        return RdmaVerdict.ON
    if decision.switched:
        return RdmaVerdict.SWITCHED
    roce.dropped["by a flow table"] += 1
    return RdmaVerdict.DROPPED
