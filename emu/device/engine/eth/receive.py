"""Frames received at a function's Ethernet port: checks them, steers them, fills receive queues.

A super-frame is steered once, as all packets of a flow take the same path, and is segmented for its
receive queue. A frame that no queue takes is counted and dropped. When the round's budget is used
up, the rest of the work continues in the next rounds, and later frames wait behind it. No frame
makes this module raise.

Source: PRM "Receive flow"; IEEE 802.3 5.2.2 (counters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth import roce, sniffer
from emu.device.engine.eth.deliver import deliver
from emu.device.engine.eth.hairpin.receive import pass_on
from emu.device.engine.eth.merging.lro import Merged, TcpStream, expect
from emu.device.engine.eth.sessions import flush_stream
from emu.device.engine.eth.sessions import take as take_or_hold
from emu.device.engine.eth.steering.fields import source as source_part
from emu.device.engine.eth.steering.packet_context import counts_of
from emu.device.engine.eth.steering.route import Delivery, route, route_beside
from emu.device.engine.nodnic import receive as nodnic
from emu.device.objects.eth.hairpin import Waiting
from emu.device.objects.eth.tir import Merging
from emu.device.port.eth.checksum import complete, trusted
from emu.device.port.eth.fcs import Damaged, Wrong
from emu.device.port.eth.flow_control import is_control
from emu.device.port.eth.frame import MIN_BYTES, Frame
from emu.device.port.eth.headers import (
    UPLINK,
    FrameError,
    Headers,
    Marked,
    parse,
    parse_super_frame,
    source_of,
)
from emu.device.port.eth.plain import header_bytes
from emu.device.port.eth.roce.framing import GRH, ROCE_PORT, ROCE_PORT_AT
from emu.device.port.eth.segment import MAX_SEGMENTS, check, segment
from emu.device.port.eth.traffic import FCS_BYTES
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, LOG_CUT_PER_STEP, STEPS_PER_DECISION
from emu.device.rounds.portions import Portions
from emu.device.state.points import FaultPoint
from layouts.enums.flow_table import FlowTableType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emu.device.adapter.adapter import Vhca
    from emu.device.objects.domains import LoopbackSource
    from emu.device.objects.eth.flow.domain import FlowDomain
    from emu.device.port.eth.vport import NicVport
    from emu.device.rounds.budget import Budget
    from emu.device.state.hca import Hca

MAX_COPIES = MAX_SEGMENTS
"""Number of packets cut from one super-frame, over all receiving queues; more are dropped."""


_NIC_RX: Final = FlowTableType.NIC_RX
_TYPE_AT: Final = 12
_TAGGED_TYPE_AT: Final = 16
_TYPE_BYTES: Final = 2

FRAME_RX_POINT: Final[FaultPoint[[Frame], None]] = FaultPoint("frame.rx")


def arrive(hca: Hca, frame: Frame) -> None:
    """Take a frame from the wire, now or from the backlog; never raise.

    An unexpected exception stops the function for good. A frame for a failed function, or received
    while the link is down, is ignored and not counted. A fault plan may change or drop the frame.
    """
    if hca.health.has_failed:
        return
    try:
        if hca.probes.faults is None:
            if hca.backlogs.rx.is_free:
                take(hca, frame)
            else:
                enqueue(hca, frame)
        else:
            hca.probes.faults.show(FRAME_RX_POINT, frame)
    except Exception:
        hca.health.fail()


def enqueue(hca: Hca, frame: Frame) -> None:
    """Take a frame after the earlier ones, within the round's budget.

    A full backlog drops the frame and counts its packets as discards.
    """
    if not hca.backlogs.rx.do(len(frame.data), take, hca, frame):
        hca.nic_vport.received.discards += counts_of(frame)[0]


def loop_back(hca: Hca, frame: Frame, source: LoopbackSource) -> None:
    """Steer a frame that one of the function's own send queues has sent to the function.

    The frame was not on the wire, so only the vPort counts it. A frame that no receive queue takes
    is not counted: the driver's counters are for frames of others (tirc.self_lb_block). A full
    backlog counts discards.
    """
    if not hca.backlogs.rx.do(len(frame.data), _loop_back, hca, frame, source):
        hca.nic_vport.received.discards += counts_of(frame)[0]


def _loop_back(hca: Hca, frame: Frame, source: LoopbackSource) -> None:
    """Steer a looped frame; drop one with malformed headers, uncounted."""
    if hca.is_sniffed:
        sniffer.copy(hca, hca.sniffer_rx, frame)
    try:
        if frame.gso_size > 0:
            _steer_large(hca, _Large(hca.vhca, hca.flow_domains, frame), source)
        else:
            _steer_one(hca, frame, source)
    except FrameError:
        return


def loop_back_roce(hca: Hca, data: bytes) -> None:
    """Take a RoCE frame that the function has sent to itself.

    RDMA_RX tables may hand it on to NIC_RX. Every TIR takes it there, because it is of no send
    queue. A frame that no queue takes counts as steering_discards.
    """
    vport = hca.nic_vport
    # A LAG's master has RoCE while any of the ports is up.
    if roce.take(hca, data, is_looped=True) or not vport.is_up:
        return
    try:
        _steer_one(hca, Frame(data, source_port=hca.vhca.vport_number), None)
    except FrameError:
        return
    _count_looped(vport, data, 1, len(data))
    out = vport.looped_out  # the sender has counted the packet as one of verbs
    out.add_to(out.rdma_unicast, 1, len(data))
    out.sort_frame(data, 1, len(data))


def take(hca: Hca, frame: Frame) -> None:
    """Take a frame from the wire now, without the planned faults of :func:`arrive`.

    While the vPort is down only count the frame. A frame beyond the MTU counts as too_long and
    errors, one with malformed headers as errors, one that no queue takes as steering_discards.
    Pause frames of the cable go to the port's flow control, those of a vPort are dropped. RoCE
    frames go to the transport.
    """
    vport = hca.nic_vport
    if not vport.is_up:
        vport.received_while_down += counts_of(frame)[0]
        return
    received, data = vport.received, frame.data
    try:
        if frame.gso_size > 0:
            large = _Large(hca.vhca, hca.flow_domains, frame)
            if large.longest + FCS_BYTES > vport.oper_mtu:
                received.too_long += large.packets
                received.errors += large.packets
                return
            if hca.is_sniffed:
                sniffer.copy(hca, hca.sniffer_rx, frame)
            _steer_large(hca, large, None)
            received.add(data, large.packets, large.octets)
        elif len(data) + FCS_BYTES > vport.oper_mtu:
            received.too_long += 1
            received.errors += 1
        elif is_control(data):
            if frame.source_port == UPLINK:
                port = vport.port
                port.flow.receive_control(data, hca.clock.now_ns(), port.speed)
        else:
            if hca.is_sniffed:
                sniffer.copy(hca, hca.sniffer_rx, frame)
            if (
                data.find(ROCE_PORT, *ROCE_PORT_AT) < 0
                and data[_TYPE_AT : _TYPE_AT + _TYPE_BYTES] != GRH
                and data[_TAGGED_TYPE_AT : _TAGGED_TYPE_AT + _TYPE_BYTES] != GRH
            ) or not roce.take(hca, data, source_port=frame.source_port, registers=frame.registers):
                _steer_one(hca, frame, None)
                received.add(data)
    except FrameError:
        received.errors += 1


def take_beside(hca: Hca, frame: Frame, vport: NicVport) -> bool:
    """Take a frame that another port of a LAG received; the function is the LAG's master.

    The counters are those of ``vport``, the receiving port's vPort. Return False, and count
    nothing, when the master's tables leave the frame to that port's own function. Return False also
    for pause frames and frames beyond the MTU. Raises FrameError before any counter changes.
    """
    data, mtu = frame.data, vport.oper_mtu - FCS_BYTES
    if frame.gso_size > 0:
        large = _Large(hca.vhca, hca.flow_domains, frame)
        _check_large(large)
        if large.longest > mtu:
            return False
        hca.budget.charge(large.packets >> LOG_CUT_PER_STEP)
        queues = route_beside(
            hca.budget, hca.flow_domains, large.headers, large.octets, large.packets
        )
        if queues is None:
            return False
        vport.received.add(data, large.packets, large.octets)
        if hca.is_sniffed:
            sniffer.copy(hca, hca.sniffer_rx, frame)
        if queues:
            _give_large(hca, large, queues)
        return True
    if len(data) > mtu or is_control(data):
        return False
    headers = parse(data)
    queues = route_beside(hca.budget, hca.flow_domains, headers, len(data))
    if queues is None:
        return False
    vport.received.add(data)
    if hca.is_sniffed:
        sniffer.copy(hca, hca.sniffer_rx, frame)
    _give(hca, frame, headers, queues)
    return True


def enqueue_damaged(hca: Hca, frame: Damaged) -> None:
    """Do :func:`enqueue` for a frame with a wrong frame check sequence."""
    if not hca.backlogs.rx.do(len(frame.data), _take_damaged, hca, frame):
        hca.nic_vport.received.discards += 1


def _take_damaged(hca: Hca, frame: Damaged) -> None:
    """Count a frame with a wrong FCS; steer it if the port does not check the FCS.

    A steered frame counts as received, too. A frame that the port refuses, beyond the MTU or with
    malformed headers also counts as an error. Do nothing while the vPort is down.
    """
    vport = hca.nic_vport
    if not vport.is_up:
        return
    vport.received.fcs_errors += 1
    if vport.port.checks_fcs or len(frame.data) + FCS_BYTES > vport.oper_mtu:
        vport.received.errors += 1
        return
    try:
        _steer_one(hca, frame, None, Wrong.of(parse(frame.data), frame.fcs))
        vport.received.add(frame.data)
    except FrameError:
        vport.received.errors += 1


def _steer_one(
    hca: Hca, frame: Frame, source: LoopbackSource | None, headers: Headers | None = None
) -> None:
    """Steer a frame that is no super-frame and give it to the chosen queues. Raises FrameError.

    Without a queue, a frame from the wire or a looped RoCE frame counts as steering_discards. A
    looped frame with a queue counts in the loopback counters.
    """
    data = frame.data
    if headers is None:
        parsed = frame.parsed
        headers = parsed if parsed is not None and parsed.frame is data else parse(data)
    if frame.registers or hca.eswitch is not None:
        headers = _with_source(hca.vhca, hca.flow_domains, headers, frame)
    queues = route(hca, headers, len(data), 1, source)
    if not queues:
        if source is None:
            _take_unsteered(hca, frame, 1)
        return
    if source is not None:
        _count_looped(hca.nic_vport, data, 1, len(data))
    _give(hca, frame, headers, queues)


def _take_unsteered(hca: Hca, frame: Frame, packets: int) -> None:
    """Give a frame that no queue takes to the NIC of boot firmware, if that is on; else count it.

    Raises FrameError for a super-frame that cannot be cut.
    """
    vport = hca.nic_vport
    if vport.nodnic is not None and vport.nodnic.is_on:
        nodnic.take(vport, vport.nodnic, frame, packets, hca.budget, hca.memory, hca.probes.tracer)
    else:
        vport.steering_discards += packets


def _with_source(
    vhca: Vhca[Hca], flow_domains: Mapping[int, FlowDomain], headers: Headers, frame: Frame
) -> Headers:
    """Return the headers with the metadata that the switch adds: registers and source vPort.

    The source vPort is added only if a table matches it. Registers identify the vPort otherwise
    (core/eswitch_offloads.c: mlx5_eswitch_create_vport_rx_rule).
    """
    domain = flow_domains.get(_NIC_RX)
    if domain is not None and source_part in domain.users:
        source = source_of(frame.source_port, vhca.adapter.manager.number)
        return Marked(headers, frame.registers or {}, source)
    return Marked(headers, frame.registers) if frame.registers else headers


def _give(hca: Hca, frame: Frame, headers: Headers, queues: Sequence[Delivery]) -> None:
    """Deliver a packet to each queue, or hold it for merging there.

    The rest of the queues waits for later rounds when the budget is used up.
    """
    if frame.checked and not frame.filled:
        complete(headers)
    budget = hca.budget
    for at, to in enumerate(queues):
        if budget.steps > budget.limit:
            hca.backlogs.rx.begin(
                _deliver_rest(hca, headers, frame.checked, queues[at:]), len(headers.frame)
            )
            return
        if to.merging is None and to.rq.reservations is None:
            deliver(hca, headers, frame.checked, to)
        else:
            take_or_hold(hca, headers, frame.checked, to)


def _count_looped(vport: NicVport, data: bytes, packets: int, octets: int) -> None:
    vport.received.add(data, packets, octets)
    vport.looped_in.add(data, packets, octets)


def _deliver_rest(
    hca: Hca, headers: Headers, is_vouched: bool, queues: Sequence[Delivery]
) -> Portions[None]:
    """Deliver a packet to the remaining queues, as the rounds' budgets permit."""
    for to in queues:
        while hca.budget.exhausted(hca.budget.limit):
            yield
        take_or_hold(hca, headers, is_vouched, to)


class _Large:
    """A super-frame: its headers, and the number and size of its packets.

    Raises FrameError when its headers contradict each other.
    """

    __slots__ = ("data", "frame", "header", "headers", "longest", "octets", "packets", "size")

    def __init__(
        self, vhca: Vhca[Hca], flow_domains: Mapping[int, FlowDomain], frame: Frame
    ) -> None:
        self.frame, self.data, self.size = frame, frame.data, frame.gso_size
        self.headers = _with_source(vhca, flow_domains, parse(frame.data, whole=False), frame)
        self.header = header_bytes(self.headers)
        payload = len(frame.data) - self.header
        if payload <= 0:
            raise FrameError("super-frame without payload")
        self.packets = -(-payload // self.size)
        self.octets = self.packets * self.header + payload
        self.longest = self.header + min(payload, self.size)

    def singles(self) -> Iterator[Frame]:
        """Yield its packets as frames of their own."""
        for data in segment(self.data[: self.header], self.data[self.header :], self.size):
            yield replace(self.frame, data=data, gso_size=0, checked=True, filled=True, parsed=None)

    def waiting(self) -> Waiting:
        """Return the unsegmented frame for a hairpin."""
        return Waiting(self.data, self.size, True, self.packets, self.longest, self.octets)


def _steer_large(hca: Hca, large: _Large, source: LoopbackSource | None) -> None:
    """Steer a super-frame by its headers, then deliver each of its packets to the chosen queues.

    Its packets are steered one by one if meters or samplers are on the path. Raises FrameError if
    it cannot be segmented. Counters count its packets, as in ``_steer_one``.
    """
    _check_large(large)
    hca.budget.charge(large.packets >> LOG_CUT_PER_STEP)
    queues = route(hca, large.headers, large.octets, large.packets, source)
    if queues is None:

        def steer(packet: Frame) -> None:
            try:
                _steer_one(hca, packet, source)
            except FrameError:  # an entry's change is impossible
                hca.nic_vport.received.errors += source is None

        hca.backlogs.rx.begin(_one_by_one(hca.budget, large.singles(), steer), len(large.data))
        return
    if not queues:
        if source is None:
            _take_unsteered(hca, Frame(large.data, large.size), large.packets)
        return
    if source is not None:
        _count_looped(hca.nic_vport, large.data, large.packets, large.octets)
    _give_large(hca, large, queues)


def _one_by_one(
    budget: Budget, packets: Iterable[Frame], steer: Callable[[Frame], None]
) -> Portions[None]:
    """Steer packets in several rounds if necessary."""
    for packet in packets:
        while budget.exhausted(budget.limit):
            yield
        budget.charge(STEPS_PER_DECISION)
        steer(packet)


def _check_large(large: _Large) -> None:
    """Raise FrameError for a super-frame that cannot be segmented."""
    data, at = large.data, large.header
    check(parse_super_frame(data[:at]), data[at:], large.size)


def _give_large(hca: Hca, large: _Large, queues: Sequence[Delivery]) -> None:
    """Deliver a super-frame's packets to the queues, in several rounds if necessary.

    Copies beyond MAX_COPIES, over all queues, are dropped and counted as discards.
    """
    count = MAX_COPIES // large.packets
    if len(queues) > count:
        hca.nic_vport.received.discards += large.packets * (len(queues) - count)
        queues = queues[:count]
    hca.backlogs.rx.begin(_deliver_super_frame(hca, large, queues), len(large.data))


def _deliver_super_frame(hca: Hca, large: _Large, queues: Sequence[Delivery]) -> Portions[None]:
    """Deliver the packets of a super-frame to each queue, in several rounds if necessary.

    Packets are merged where a TIR allows LRO, unless the queue splits headers. Held packets of the
    same stream are delivered first. A hairpin without changes gets the unsegmented frame.
    """
    budget = hca.budget
    apart = []
    for to in queues:
        hairpin = to.rq.hairpin
        if hairpin is not None and to.steps is None:
            pass_on(hca.vhca, to.rq, hairpin, large.waiting())
            continue
        flush_stream(hca, to.rq, large.headers)
        strides = to.rq.strides
        if (
            to.merging is None
            or strides is None
            or to.rq.reservations is not None
            or to.rq.scatters_fcs
            or not _can_merge(large.headers, to.merging)
        ):
            apart.append(to)
            continue
        expect(to.rq, large.header, to.merging)
        stream = TcpStream(large.headers, large.header, large.size)
        for one in stream.merged(to.merging, strides.most_bytes):
            while budget.steps > budget.limit:
                yield
            if isinstance(one, Merged):
                octets = len(one.headers.frame)
                budget.charge(one.segments + (octets >> LOG_BYTES_PER_STEP))
                deliver(hca, one.headers, True, to, one)
            else:
                deliver(hca, one, True, to)
    if not apart:
        return
    sums, length = None, 0
    for cut in segment(large.data[: large.header], large.data[large.header :], large.size):
        packet = _of_segment(large.headers, cut)
        if sums is None or length != len(cut):  # other differences cancel out in the checksum
            sums, length = trusted(packet), len(cut)
        packet.sums = sums
        for to in apart:
            while budget.steps > budget.limit:
                yield
            deliver(hca, packet, True, to)


def _can_merge(headers: Headers, merging: Merging) -> bool:
    return headers.version in merging.versions and TcpStream.can_be(headers)


def _of_segment(headers: Headers, data: bytes) -> Headers:
    """Return the headers of a packet cut from a super-frame; their offsets are unchanged."""
    end = len(data)
    if end < MIN_BYTES:
        data = data.ljust(MIN_BYTES, b"\0")
    packet = Headers(
        data, headers.ethertype, headers.l3, headers.version, headers.protocol, headers.l4, end
    )
    packet.copy_state(headers)
    if isinstance(headers, Marked):
        return Marked(packet, headers.registers, headers.source)
    return packet
