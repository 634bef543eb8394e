"""Receive credits: the number of frames for which a function has receive WQEs posted.

mlx5e enables pause frames, so a real port does not overrun a slow driver. A link whose peer can
wait polls these credits and delays the peer instead (IEEE 802.3 31B).

Send queues also wait while the link partner's port has no credits, if their function obeys pause
frames; a timer polls again. A function counts down the credits from the last poll, so few frames
need a poll of the partner's queues. The wire decides who waits for whom and how long
(``emu.device.port.eth.wire.EthWire.credits_to``).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.pacing import wait
from emu.device.port.eth.traffic import GROUP_BIT, MAC_BYTES
from emu.device.ports import DmaError
from emu.device.rounds.costs import LOG_CREDITS_PER_STEP, LOG_EXPIRED_PER_STEP
from layouts.enums.caps import PortType
from layouts.enums.wq import RqState

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter
    from emu.device.objects.eth.sq import AnySq
    from emu.device.port.eth.link_partner import LinkPartner
    from emu.device.state.hca import Hca

MANY: Final = 1 << 16
"""More than any queue has."""
MIN_SIZE: Final = 64
"""Smallest queue that senders wait for, in WQEs; a network interface's queues are larger."""
MAX_QUEUES_EXAMINED: Final = 512
"""Number of queues examined per poll, as links poll in each round."""
POLL_NS: Final = 200_000
"""Interval at which a waiting queue polls. A pause frame lasts at most a third of a millisecond at
100 Gb/s."""
MAX_UNCONFIRMED_PACKETS: Final = 256
"""Number of packets sent before the partner is polled again, whatever its credits."""


def emptiest(hca: Hca) -> tuple[int, int]:
    """Return the credits of the emptiest receive queue, and its capacity in short packets.

    Credits are 0 while received frames wait in the backlog, MANY without a queue to wait for.
    Queues outside RDY, never used or smaller than MIN_SIZE do not count. The poll is charged to the
    budget. The NIC of boot firmware has one queue.
    """
    if hca.backlogs.rx:
        return 0, MANY
    if (nic := hca.nic_vport.nodnic) is not None and nic.moves_data:
        return nic.receive_credits, nic.most_posted
    least, size, examined = MANY, MANY, 0
    for rq in islice(hca.rqs, MAX_QUEUES_EXAMINED):
        queue = rq.queue
        if rq.state is RqState.RDY and queue.is_used and rq.size_frames >= MIN_SIZE:
            examined += 1
            try:
                frames = rq.frames(hca.nic_vport.oper_mtu)
            except DmaError:
                continue  # the next frame breaks the queue
            if frames < least:
                least, size = frames, rq.size_frames
    hca.budget.charge(examined >> LOG_CREDITS_PER_STEP)
    return least, size


def use_credits(link_partner: LinkPartner, data: bytes, packets: int) -> None:
    """Count down the credits for a frame that leaves by the cable, and record its destination.

    A unicast frame to a new address makes the next WQE poll the partner.
    """
    link_partner.credit -= packets
    if packets > link_partner.largest:
        link_partner.largest = packets
    if not data[0] & GROUP_BIT and data[:MAC_BYTES] != link_partner.address:
        link_partner.address = data[:MAC_BYTES]
        link_partner.credit = 0


def expire_segment_credits(adapter: Adapter[Hca]) -> None:
    """Make all functions on the segment of this port poll before they send again.

    Their credits are from before a change of this port's flow control, and may be unlimited ones.
    """
    for manager in adapter.switch.uplink.nodes():
        expire_credits(manager.adapter)


def expire_credits(adapter: Adapter[Hca]) -> None:
    """Make all functions of an adapter poll before they send again; charge that to the budget."""
    nodes = [*adapter.nodes()]
    for node in nodes:
        node.link_partner.credit = 0
    if nodes:
        nodes[0].budget.charge(1 + (len(nodes) >> LOG_EXPIRED_PER_STEP))


def select_priority(hca: Hca, sq: AnySq) -> None:
    """Take back the credits of another priority before a queue sends, if the port obeys PFC."""
    link_partner, priority = hca.link_partner, _priority_of(sq)
    if (
        priority != link_partner.priority
        and hca.model.port_type is PortType.ETH
        and hca.eth.flow.pfc_rx
    ):
        link_partner.credit, link_partner.priority = 0, priority


def _priority_of(sq: AnySq) -> int:
    return sq.tis.prio >> 1 if sq.tis is not None else 0


def await_credits(hca: Hca, sq: AnySq) -> bool:
    """Return whether the link partner makes the queue wait; renew the credits if not.

    A timer polls a waiting queue again, for which no other queue of a shared rate waits. Record the
    begin and end of a pause in the port's flow counters. InfiniBand ports never wait.
    """
    if hca.model.port_type is not PortType.ETH:
        hca.link_partner.credit = MANY
        return False
    link_partner, flow = hca.link_partner, hca.eth.flow
    credits, priority, since = MANY, _priority_of(sq), link_partner.since_ns
    if link_partner.address:
        credits = hca.segment.credits_to(link_partner.address, link_partner.largest, flow, priority)
    now = hca.clock.now_ns()
    if not credits:
        if priority not in since:
            since[priority] = now
            flow.count_pause_received()
        if sq.pacing is not None:
            sq.pacing.stop_waiting()
        wait(hca.scheduler, hca.clock, sq, POLL_NS)
        return True
    if priority in since:
        flow.count_resume_received(now - since.pop(priority))
    link_partner.credit = min(max(credits - link_partner.largest, 0) + 1, MAX_UNCONFIRMED_PACKETS)
    return False
