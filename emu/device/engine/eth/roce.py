"""RoCE frames received at an Ethernet port.

A frame is RoCE's if it is for a GID of the port, or for a multicast GID to which a QP is attached.
The driver must have enabled RoCE (nic_vport_context.roce_en). All other frames go to the flow
tables: with RoCE disabled, the driver can run Soft-RoCE on the port.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.steering import rdma as rdma_steering
from emu.device.engine.eth.steering.rdma import RdmaVerdict
from emu.device.engine.rc.packets.connection import receive, receive_train
from emu.device.engine.ud.delivery import arrive
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import ETHERNET_BYTES, UPLINK
from emu.device.port.eth.roce.datagram import datagram_of, vlan_of
from emu.device.port.eth.roce.gids import MAC_BYTES
from emu.device.port.eth.roce.reading import (
    BadFrameError,
    addresses,
    network_header,
    parse,
    tag_of,
    version_of,
)
from emu.device.port.eth.roce.trains import frames_of, parse_train
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.port.packet import BadPacketError
from emu.device.port.train import Train
from layouts.wire.bth import Service

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.port.eth.roce.gids import GidTable
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

_GROUP: Final = 1
_UD: Final = Service.UD


def take(
    hca: Hca,
    frame: bytes,
    *,
    is_looped: bool = False,
    source_port: int = UPLINK,
    registers: Mapping[int, int] | None = None,
) -> bool:
    """Take a frame if it is RoCE's; return False when it is for the flow tables instead.

    ``is_looped``: the function itself has sent it. ``source_port`` and ``registers`` are the
    metadata from the adapter's switch.
    A malformed frame is dropped and counted in ``hca.roce.dropped`` and errors; the result is True.
    True also if RDMA_RX tables drop it. No frame makes this function raise.
    """
    at = network_header(frame)
    if not at or not hca.link.is_up or not _is_for(hca.mcgs, hca.gids, frame, at):
        return False
    try:
        packet = parse(frame, at)
    except BadFrameError as error:
        hca.roce.dropped[error.kind] += 1
        hca.nic_vport.received.errors += 1
        log.debug("%s: a RoCE frame is dropped: %s", hca.model.name, error)
        return True
    if hca.rdma_rx.root is not None:
        source = hca.vhca.vport_number if is_looped else source_port
        verdict = rdma_steering.receive(hca, frame, source, registers)
        if verdict is not RdmaVerdict.ON:
            return verdict is RdmaVerdict.DROPPED
    if packet.op.service is _UD:
        # Datagrams have no flow that the sender could slow down: the mark is only counted.
        hca.roce.congestion.counts["np_ecn_marked_roce_packets"] += packet.is_marked
        arrive(hca, *datagram_of(packet, frame, tag_of(frame, at)), is_looped=is_looped)
    elif not frame[0] & _GROUP:
        received = hca.nic_vport.received
        if at > ETHERNET_BYTES or received.qos.trusted is not None:  # it may have a priority
            received.sort_frame(frame, 1, len(frame))
        if is_looped:
            hca.link.count_looped(1, len(frame))
            hca.nic_vport.looped_in.sort_frame(frame, 1, len(frame))
            hca.nic_vport.looped_out.sort_frame(frame, 1, len(frame))
        receive(hca, packet, len(frame))
    return True


def arrive_train(hca: Hca, received: Train | memoryview) -> None:
    """Take a train (packets of one message) from the cable, whole or as separate frames.

    ``received`` is the train, or its unparsed frame. A malformed train is dropped, uncounted.
    """
    try:
        train = received if isinstance(received, Train) else parse_train(received)
        if not _take_train(hca, train):
            for one in frames_of(train):
                hca.switch.receive(Frame(one))
    except BadPacketError as error:
        log.debug("%s: a train is dropped: %s", hca.model.name, error)


def _take_train(hca: Hca, train: Train) -> bool:
    """Take a whole train; return False where something needs separate frames, and then do nothing.

    Fault plans, flow tables, sniffers, the MTU and a non-empty backlog need separate frames. A
    vPort or link that is down, and a foreign destination, return False too.
    """
    head, length = train.head, train.length
    if (
        hca.probes.faults is not None
        or hca.rdma_rx.root is not None
        or hca.is_sniffed
        or hca.switch.is_decided(hca)
        or not hca.nic_vport.is_up
        or not hca.link.is_up
        or not hca.backlogs.rx.is_free
        or length + FCS_BYTES > hca.nic_vport.oper_mtu
        or not _is_for(hca.mcgs, hca.gids, head, network_header(head))
    ):
        return False
    hca.nic_vport.received.sort_frame(head, train.count, train.count * length)
    receive_train(hca, train, length)
    return True


def is_for(hca: Hca, frame: bytes) -> bool:
    """Return whether :func:`take` takes a frame; False while the RoCE link is down.

    RDMA_RX tables may still pass the frame to NIC_RX.
    """
    at = network_header(frame)
    return bool(at) and hca.link.is_up and _is_for(hca.mcgs, hca.gids, frame, at)


def _is_for(mcgs: Mapping[bytes, list[Qp]], gids: GidTable, frame: bytes, at: int) -> bool:
    """Return whether the function has the destination GID with this MAC address, VLAN and version.

    A multicast frame needs a QP attached to its group; a group accepts both RoCE versions.
    """
    _, dgid = addresses(frame, at)
    if frame[0] & _GROUP:
        return dgid in mcgs
    vlan = vlan_of(tag_of(frame, at)) if at > ETHERNET_BYTES else None
    return gids.has(frame[:MAC_BYTES], vlan, dgid, version_of(frame, at))
