"""Striding queues over frames of AF_XDP: how their keys map them (core/en/xsk/rx.c, en_main.c).

A stride is a power of two, a packet takes one, and the frame under it is where the program wants
it: pages, ranges of one size, a frame and something behind it that nobody reads.
"""

import pytest

from emu.device.port.eth.frame import Frame
from emu.driver.command.words import pack64
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.keys import umr
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import Opcode
from layouts.memory.mkey import mkc
from layouts.rings.wqe import DATA, KLM, NEXT, wqe_umr_ctrl_seg

FRAMES = 8
"""Of a request; the driver has up to 64."""
REQUESTS = 4
WRITABLE = 2


class Mode:
    """How frames of ``chunk`` bytes are mapped: entries of a key over physical addresses."""

    def __init__(self, mode, chunk, log_page_size, per_frame):
        self.mode, self.chunk, self.per_frame = mode, chunk, per_frame
        self.log_page_size = log_page_size
        """What the key says, 0 where each entry has a length of its own."""
        self.stride = 4096

    def entries(self, key, frames, garbage):
        """The translations of these frames, as bytes."""
        if self.mode is AccessMode.MTT:
            return pack64([frame | WRITABLE for frame in frames])
        if self.mode is AccessMode.KLMS:
            rest = self.stride - self.chunk
            ranges = [((self.chunk, key, at), (rest, key, garbage)) for at in frames]
        elif self.per_frame == 4:
            part = self.stride // 4
            ranges = [[(0, key, at + n * part) for n in range(3)] + [(0, key, garbage)]
                      for at in frames]  # fmt: skip
        else:
            ranges = [((0, key, at),) for at in frames]
        return b"".join(KLM.pack(*entry) for frame in ranges for entry in frame)

    @property
    def octwords(self):
        """Of a request's translations."""
        size = 8 if self.mode is AccessMode.MTT else 16
        return FRAMES * self.per_frame * size // 16


MODES = {
    "aligned": Mode(AccessMode.MTT, 4096, 12, 1),
    "unaligned": Mode(AccessMode.KSM, 4096, 12, 1),
    "triple": Mode(AccessMode.KSM, 3072, 10, 4),
    "oversized": Mode(AccessMode.KLMS, 3500, 0, 2),
    "half a page": Mode(AccessMode.KLMS, 2048, 0, 2),
}


@pytest.fixture(params=MODES.values(), ids=list(MODES))
def mode(request):
    return request.param


class Umem:
    """A program's memory, in frames, and a queue that fills them."""

    def __init__(self, node, mode):
        driver, memory = node.driver, node.memory
        self.node, self.mode = node, mode
        self.physical = driver.create_mkey(node.pdn, access_mode_1_0=AccessMode.PA) << 8
        self.garbage = memory.alloc(4096)
        octwords = mode.octwords * REQUESTS
        fields = {
            "pd": node.pdn, "free": 1, "umr_en": 1, "lr": 1, "lw": 1, "qpn": 0xFFFFFF,
            "access_mode_1_0": mode.mode & 3, "access_mode_4_2": mode.mode >> 2,
            "len": FRAMES * REQUESTS * mode.stride, "log_page_size": mode.log_page_size,
            "translations_octword_size": octwords,
        }  # fmt: skip
        nowhere = [self.garbage] * (FRAMES * REQUESTS)
        self.index = driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields,
            translations_octword_actual_size=octwords,
            extra=mode.entries(self.physical, nowhere, self.garbage),
        ).mkey_index  # fmt: skip
        self.icosq = SendQueue(node, reg_umr=1, log_size=7)
        self.rq = StridingQueue(
            node, log_size=2, log_count=3, log_stride_size=mode.stride.bit_length() - 1
        )

    def map(self, number, frames):
        """A UMR request for the receive request with this number, which is written then."""
        xlt = self.mode.entries(self.physical, frames, self.garbage)
        ctrl = wqe_umr_ctrl_seg.new(
            flags=umr.INLINE | umr.OFFSET, xlt_octowords=len(xlt) // 16,
            xlt_offset=number * self.mode.octwords, mkey_mask=umr.FREE,
        )  # fmt: skip
        body = bytes(ctrl.buf) + bytes(mkc.new().buf) + umr.pad64(xlt)
        self.icosq.post(Opcode.UMR, body, imm=self.index << 8)
        self.node.settle()
        assert [done.opcode for done in self.icosq.cq.drain()] == [CqeOpcode.REQ]
        size = FRAMES * self.mode.stride
        wqe = NEXT.pack((number + 1) % 4) + DATA.pack(size, self.index << 8, number * size)
        self.rq.ring.write(number * self.rq.stride, wqe)
        self.rq.post_more()


@pytest.fixture
def umem(node, driver, td, mode):
    made = Umem(node, mode)
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    flows.set_root(table)
    tirn = create_direct_tir(driver, td, made.rq.rqn)
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    return made


def frames_of(node, mode, count):
    """Where a program may have its frames: whole pages only, if these are mapped as pages."""
    size = mode.stride if mode.mode is AccessMode.MTT else mode.chunk
    base = node.memory.alloc(count * size + 4096)
    shift = 0 if mode.mode is AccessMode.MTT or mode.per_frame > 1 else 100
    order = [(n * 5 + 3) % count for n in range(count)]
    return [base + shift + n * size for n in order]


def test_each_packet_is_in_its_frame(hca, node, umem, mode):
    frames = frames_of(node, mode, 2 * FRAMES)
    umem.map(0, frames[:FRAMES])
    umem.map(1, frames[FRAMES:])
    sent = [MACS + b"\x08\x06" + bytes([n]) * (60 + 89 * n) for n in range(2 * FRAMES)]
    for one in sent:
        arrive(hca, Frame(one))
    assert [node.memory.read(at, len(one)) for at, one in zip(frames, sent)] == sent
    found = []
    while (raw := umem.rq.cq.peek()) is not None:
        umem.rq.cq.poll()
        entry = umem.rq.cq.entry(umem.rq.cq.ci - 1)
        assert entry == raw
        found.append((int.from_bytes(raw[2:4], "big"), int.from_bytes(raw[60:62], "big")))
    assert found == [(n // FRAMES, n % FRAMES) for n in range(2 * FRAMES)]
    assert node.memory.read(umem.garbage, 4096) == bytes(4096)


def test_a_packet_longer_than_its_frame_hits_nobody(hca, node, umem, mode):
    """Of a stride that is longer than its frame, the rest leads to a page that nobody reads."""
    if mode.chunk == mode.stride:
        pytest.skip("no rest")
    frames = sorted(frames_of(node, mode, FRAMES))
    umem.map(0, frames)
    hca.eth.admin_mtu = 5000
    size = mode.stride - 8
    arrive(hca, Frame(MACS + b"\x08\x06" + b"\xee" * (size - 14)))
    assert node.memory.read(frames[0], mode.chunk) == (
        MACS + b"\x08\x06" + b"\xee" * (mode.chunk - 14)
    )
    assert node.memory.read(frames[1], mode.chunk) == bytes(mode.chunk)
    assert node.memory.read(umem.garbage, size - mode.chunk) == b"\xee" * (size - mode.chunk)
