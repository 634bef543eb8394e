"""Ethernet send and receive queues as mlx5e and a raw packet queue pair keep them."""

from __future__ import annotations

from helpers.driver import pack64
from layouts.cqe import cqe64
from layouts.enums import CqeOpcode, Op, Opcode
from layouts.eth_enums import RqState, SqState, WqType
from layouts.eth_wqe import (
    ETH,
    INLINE_HDR_START,
    INSERT_SVLAN,
    INSERT_VLAN,
    START_PADDING,
)
from layouts.wqe import CTRL, DATA, DS, NEXT, WQEBB

PAGE = 4096
SIGNALED = 0b10 << 2
END_OF_LIST = DATA.pack(0, 0x100, 0)


class Ring:
    """Pages of a queue's buffer, and its doorbell record."""

    def __init__(self, memory, size):
        self.memory = memory
        self.pages = memory.pages(size)
        self.record = memory.alloc(64, 64)

    def write(self, at, data):
        """Write into the buffer, over page ends."""
        while data:
            room = PAGE - at % PAGE
            self.memory.write(self.pages[at // PAGE] + at % PAGE, data[:room])
            at, data = at + room, data[room:]


def sq_fields(driver, pdn, cqn, *, log_size=6, tisn=None, **context):
    """What CREATE_SQ takes, and the ring behind it."""
    ring = Ring(driver.memory, WQEBB << log_size)
    wq = {
        "wq_type": WqType.CYCLIC, "pd": pdn, "uar_page": driver.uar,
        "dbr_addr": ring.record, "log_wq_stride": 6, "log_wq_sz": log_size,
    } | context.pop("wq", {})  # fmt: skip
    ctx = {"cqn": cqn, "flush_in_error_en": 1, "wq": wq}
    if tisn is not None:
        ctx |= {"tis_lst_sz": 1, "tis_num_0": tisn}
    return {"ctx": ctx | context, "extra": pack64(ring.pages)}, ring


def rq_fields(driver, pdn, cqn, *, log_size=4, log_stride=5, **context):
    """What CREATE_RQ takes, and the ring behind it; a WQE has ``1 << log_stride`` bytes."""
    ring = Ring(driver.memory, 1 << log_size + log_stride)
    wq = {
        "wq_type": WqType.CYCLIC, "pd": pdn, "dbr_addr": ring.record,
        "log_wq_stride": log_stride, "log_wq_sz": log_size,
    } | context.pop("wq", {})  # fmt: skip
    ctx = {"cqn": cqn, "flush_in_error_en": 1, "vsd": 1, "wq": wq}
    return {"ctx": ctx | context, "extra": pack64(ring.pages)}, ring


class SendQueue:
    """An SQ with a CQ of its own, unless it is given one."""

    def __init__(self, node, *, cq=None, log_size=6, ready=True, **context):
        self.node, self.log_size = node, log_size
        self.cq = cq or node.completion_queue()
        fields, self.ring = sq_fields(
            node.driver, node.pdn, self.cq.cqn, log_size=log_size, **context
        )
        self.sqn = node.driver.must(Op.CREATE_SQ, **fields).sqn
        self.state = SqState.RST
        self.sent = 0
        if ready:
            self.modify(SqState.RDY)

    @property
    def object(self):
        """The device's side."""
        return self.node.hca.sqs.need(self.sqn)

    def modify(self, state, **fields):
        """To another state; back in RST both sides count from 0, but the record stays as it is."""
        self.node.driver.must(
            Op.MODIFY_SQ, sqn=self.sqn, sq_state=self.state, ctx={"state": state}, **fields
        )
        self.state = state
        if state is SqState.RST:
            self.sent = 0

    def query(self):
        """The context of now."""
        return self.node.driver.must(Op.QUERY_SQ, sqn=self.sqn).sq_context

    def post(self, opcode, body=b"", *, flags=SIGNALED, ring=True, ds=None, sqn=None):
        """Post segments behind a control segment; returns the request's wqe_counter."""
        index = self.sent & 0xFFFF
        ds = 1 + -(-len(body) // DS) if ds is None else ds
        sqn = self.sqn if sqn is None else sqn
        wqe = CTRL.pack(index << 8 | opcode, sqn << 8 | ds, flags, 0) + body
        wqe = wqe.ljust(-(-len(wqe) // WQEBB) * WQEBB, b"\0")
        for number in range(len(wqe) // WQEBB):
            at = (self.sent + number & (1 << self.log_size) - 1) * WQEBB
            self.ring.write(at, wqe[number * WQEBB :][:WQEBB])
        self.sent += len(wqe) // WQEBB
        self.tell()
        if ring:
            self.ring_doorbell()
        return index

    def send(self, *sges, opcode=Opcode.SEND, ring=True, flags=SIGNALED, **segment):
        """A frame: data segments (byte_count, lkey, address), or bytes that go inline."""
        data = [inline(sge) if isinstance(sge, bytes) else DATA.pack(*sge) for sge in sges]
        body = eth_segment(**segment) + b"".join(data)
        return self.post(opcode, body, flags=flags, ring=ring)

    def nop(self, **options):
        """A request that does nothing (core/en/txrx.h: mlx5e_post_nop)."""
        return self.post(Opcode.NOP, **options)

    def tell(self):
        """The producer counter into the doorbell record."""
        self.node.memory.write(self.ring.record + 4, (self.sent & 0xFFFF).to_bytes(4, "big"))

    def ring_doorbell(self):
        """Work is done when the node runs."""
        data = bytes(4) + (self.sqn << 8).to_bytes(4, "big")
        self.node.driver.bar.write(self.node.driver.uar * PAGE + 0x800, data)


class ReceiveQueue:
    """An RQ with a CQ of its own, unless it is given one."""

    def __init__(self, node, *, cq=None, log_size=4, log_stride=5, ready=True, **context):
        self.node, self.stride, self.size = node, 1 << log_stride, 1 << log_size
        self.cq = cq or node.completion_queue()
        fields, self.ring = rq_fields(
            node.driver, node.pdn, self.cq.cqn, log_size=log_size, log_stride=log_stride, **context
        )
        self.is_list = fields["ctx"]["wq"]["wq_type"] == WqType.LINKED_LIST
        self.rqn = node.driver.must(Op.CREATE_RQ, **fields).rqn
        self.state = RqState.RST
        self.posted = 0
        if ready:
            self.modify(RqState.RDY)

    @property
    def object(self):
        """The device's side."""
        return self.node.hca.rqs.need(self.rqn)

    def modify(self, state, ctx=(), **fields):
        """To another state; back in RST both sides count from 0."""
        self.node.driver.must(
            Op.MODIFY_RQ, rqn=self.rqn, rq_state=self.state, ctx={"state": state} | dict(ctx),
            **fields,
        )  # fmt: skip
        self.state = state
        if state is RqState.RST:
            self.posted = 0
            self.node.memory.write(self.ring.record, bytes(8))

    def query(self):
        """The context of now."""
        return self.node.driver.must(Op.QUERY_RQ, rqn=self.rqn).rq_context

    def post(self, *sges, tell=True):
        """Post one WQE: (byte_count, lkey, address) each, with the bit that mlx5e sets."""
        index = self.posted % self.size
        wqe = NEXT.pack((index + 1) % self.size) if self.is_list else b""
        wqe += b"".join(DATA.pack(size | START_PADDING, key, at) for size, key, at in sges)
        if len(wqe) < self.stride:
            wqe += END_OF_LIST
        self.ring.write(index * self.stride, wqe)
        self.posted += 1
        if tell:
            self.tell()

    def tell(self):
        """The producer counter into the doorbell record."""
        self.node.memory.write(self.ring.record, (self.posted & 0xFFFF).to_bytes(4, "big"))


def eth_segment(*, cs_flags=0, mss=0, headers=b"", vlan=None, svlan=False):
    """The Ethernet segment, with inline headers behind it or a tag to insert."""
    if vlan is not None:
        trailer = INSERT_VLAN | (INSERT_SVLAN if svlan else 0) | vlan
        return ETH.pack(cs_flags, mss, 0, trailer)
    whole = ETH.pack(cs_flags, mss, 0, len(headers) << 16)
    segment = whole[:INLINE_HDR_START] + headers
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")


def inline(data):
    """An inline data segment: its header, the bytes, padding."""
    segment = (1 << 31 | len(data)).to_bytes(4, "big") + data
    return segment.ljust(-(-len(segment) // DS) * DS, b"\0")


class Buffers:
    """Receive buffers of an RQ: what was posted, and the packets that completions tell of."""

    def __init__(self, rq, *sizes, count=8):
        """``sizes`` of a request's fragments, which do not lie together."""
        self.rq, self.sizes = rq, sizes or (2048,)
        self.slot = sum(self.sizes) + 64 * len(self.sizes)
        self.region = rq.node.region(self.slot * rq.size, va=0x40000)
        for _ in range(count):
            self.post()

    def _places(self, index):
        at = index % self.rq.size * self.slot
        for size in self.sizes:
            yield at, size
            at += size + 64

    def post(self):
        """One more request."""
        sges = [(size, self.region.key, self.region.va + at) for at, size in
                self._places(self.rq.posted)]  # fmt: skip
        self.rq.post(*sges)

    def drain(self):
        """(the completion's fields, the packet's bytes) of what has come; errors have no bytes."""
        found = []
        while (raw := self.rq.cq.peek()) is not None:
            self.rq.cq.poll()
            entry = cqe64.view(raw)
            data = b""
            if entry.op_own >> 4 == CqeOpcode.RESP_SEND:
                places = self._places(entry.wqe_counter)
                data = b"".join(self.region.read(at, size) for at, size in places)
                data = data[: entry.byte_cnt]
            found.append((entry, data))
        return found
