"""Block signatures: what mlx5dv_wr_set_mkey_sig_block(3) promises, in every direction."""

import struct
import zlib

import pytest
from helpers.models import guards

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.driver.keys.by_command import indirect_key
from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.keys.signatures import (
    BSF_EN,
    CHECK_APP,
    CHECK_GUARD,
    CHECK_REF,
    CRC32C,
    CRC64,
    DIF_CHECKSUM,
    Crc,
    Dif,
    SignatureKey,
)
from emu.driver.keys.umr import pad64, umr
from emu.driver.verbs.connect import connect
from emu.driver.verbs.outcomes import failure, good
from emu.driver.verbs.segments import FENCE
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import KLM, SET_PSV, WQEBB

BLOCKS = 4
DATA = bytes(number * 7 + number // 256 & 0xFF for number in range(BLOCKS * 512))
GUARD, APP, REF = 1 << 13, 1 << 12, 1 << 11
WIRE, MEMORY = 0, 1
ONES32, ONES64 = (1 << 32) - 1, (1 << 64) - 1


def crc32(block):
    return zlib.crc32(block).to_bytes(4, "little")


def dif(block, index, dif=None):
    dif = dif or Dif()
    guard = guards.ip_checksum if dif.kind == DIF_CHECKSUM else guards.t10_crc
    ref = dif.ref + (index if dif.increments else 0) & ONES32
    return struct.pack(">HHI", guard(block, dif.seed), dif.app, ref)


def signed(data, sign, block=512):
    """The data with a signature behind each block: ``sign(block, index)``."""
    blocks = [data[at : at + block] for at in range(0, len(data), block)]
    return b"".join(part + sign(part, index) for index, part in enumerate(blocks))


@pytest.fixture
def store(ends):
    """Room on the left for data and signatures."""
    return ends[0].region(2 * len(DATA), va=0x5000_0000_0100)


@pytest.fixture
def far(ends):
    """Room on the right, as it comes from the wire."""
    return ends[1].region(2 * len(DATA), va=0x6000_0000_0000)


@pytest.fixture
def key(ends):
    return SignatureKey(ends[0])


def run(ends):
    for end in ends:
        end.settle()


FORMS = {
    "crc32": (Crc(), lambda block, _: crc32(block)),
    "crc32 from 0": (
        Crc(seed=0),
        lambda block, _: zlib.crc32(block, ONES32).to_bytes(4, "little"),
    ),
    "crc32c": (
        Crc(bfs=CRC32C),
        lambda block, _: guards.crc32c(block, ONES32).to_bytes(4, "little"),
    ),
    "crc64": (
        Crc(bfs=CRC64, seed=ONES64),
        lambda block, _: guards.crc64_xp10(block, ONES64).to_bytes(8, "little"),
    ),
    "dif": (Dif(), dif),
    "dif, checksum": (
        Dif(kind=DIF_CHECKSUM, seed=0),
        lambda block, index: dif(block, index, Dif(kind=DIF_CHECKSUM, seed=0)),
    ),
    "dif, same tag": (
        Dif(increments=False),
        lambda block, index: dif(block, index, Dif(increments=False)),
    ),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@forms
def test_send_checks_and_strips(ends, sides, key, store, far, form):
    """Memory has signatures, the wire has none: only data leave."""
    domain, sign = form
    (left, right), stored = sides, signed(DATA, sign)
    store.write(stored)
    key.configure(left, [store.sge(0, len(stored))], mem=domain)
    right.post_recv(far.sge())
    left.send((len(DATA), key.key, 0))
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.REQ]
    assert good(right)[0].byte_cnt == len(DATA)
    assert far.read(0, len(DATA)) == DATA


@forms
def test_receive_inserts(ends, sides, key, store, far, form):
    """The other way round: each block gets its signature in store."""
    domain, sign = form
    left, right = sides
    far.write(DATA)
    stored = signed(DATA, sign)
    key.configure(left, [store.sge(0, len(stored))], mem=domain)
    left.post_recv((len(DATA), key.key, 0))
    right.send(far.sge(0, len(DATA)))
    run(ends)
    good(left)
    assert store.read(0, len(stored)) == stored


@forms
def test_send_inserts(ends, sides, key, store, far, form):
    """Only the wire has signatures."""
    domain, sign = form
    left, right = sides
    store.write(DATA)
    key.configure(left, [store.sge(0, len(DATA))], wire=domain)
    right.post_recv(far.sge())
    left.send((len(DATA), key.key, 0))
    run(ends)
    good(left)
    stream = signed(DATA, sign)
    assert good(right)[0].byte_cnt == len(stream)
    assert far.read(0, len(stream)) == stream


@forms
def test_receive_checks_and_strips(ends, sides, key, store, far, form):
    domain, sign = form
    left, right = sides
    stream = signed(DATA, sign)
    far.write(stream)
    key.configure(left, [store.sge(0, len(DATA))], wire=domain)
    left.post_recv((len(DATA), key.key, 0))
    right.send(far.sge(0, len(stream)))
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.RESP_SEND]
    assert store.read(0, len(DATA)) == DATA


@pytest.mark.parametrize("action", ["read", "write"])
def test_remote_access_to_a_key_with_signatures(ends, sides, key, store, far, action):
    """Example 2 and 2.1 of the manual page: T10-DIF on the wire, plain data in store."""
    left, right = sides
    stream = signed(DATA, dif)
    key.configure(left, [store.sge(0, len(DATA))], wire=Dif())
    if action == "read":
        store.write(DATA)
        right.read((key.key, 0), far.sge(0, len(stream)))
    else:
        far.write(stream)
        right.write((key.key, 0), far.sge(0, len(stream)))
    run(ends)
    good(right)
    assert not left.cq.drain()
    assert far.read(0, len(stream)) == stream
    assert store.read(0, len(DATA)) == DATA


@pytest.mark.parametrize("action", ["read", "write"])
def test_local_key_of_an_rdma(ends, sides, key, store, far, action):
    """What storage does: plain data at the peer, signatures here."""
    left, _ = sides
    stored = signed(DATA, dif)
    key.configure(left, [store.sge(0, len(stored))], mem=Dif())
    segment = (len(DATA), key.key, 0)
    if action == "read":
        far.write(DATA)
        left.read((far.key, far.va), segment)
    else:
        store.write(stored)
        left.write((far.key, far.va), segment)
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.REQ]
    assert store.read(0, len(stored)) == stored
    assert far.read(0, len(DATA)) == DATA


def test_key_of_several_segments_and_data_behind_the_last_block(ends, sides, key, store, far):
    """Ranges may end anywhere; what does not fill a block has no signature."""
    left, right = sides
    tail = b"not a block"
    stored = signed(DATA, dif) + tail
    store.write(stored)
    pieces = [store.sge(0, 100), store.sge(100, 413), store.sge(513, len(stored) - 513)]
    key.configure(left, pieces, mem=Dif())
    right.post_recv(far.sge())
    left.send((600, key.key, 0), (len(DATA) - 600 + len(tail), key.key, 600))
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.REQ]
    good(right)
    assert far.read(0, len(DATA) + len(tail)) == DATA + tail


# Both domains.


def both(left, key, store, size, **options):
    return key.configure(left, [store.sge(0, size)], **options)


def test_signature_is_copied_where_both_domains_have_it(ends, sides, key, store, far):
    """A bad guard goes through unchanged when it is copied and not checked."""
    left, right = sides
    stored = bytearray(signed(DATA, dif))
    stored[512] ^= 0xFF
    store.write(bytes(stored))
    both(left, key, store, len(stored), mem=Dif(), wire=Dif(), copy=0xFF, check=0)
    right.post_recv(far.sge())
    left.send((len(stored), key.key, 0))
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.REQ]
    assert far.read(0, len(stored)) == stored


@pytest.mark.parametrize("direction", ["out", "in"])
def test_tags_are_made_anew_where_they_are_not_copied(ends, sides, key, store, far, direction):
    """The guard is copied, the wire's tags are its own."""
    left, right = sides
    wire = Dif(app=0x1111, ref=7)
    mine, theirs = signed(DATA, dif), signed(DATA, lambda block, at: dif(block, at, wire))
    both(left, key, store, len(mine), mem=Dif(), wire=wire, copy=CHECK_GUARD)
    if direction == "out":
        store.write(mine)
        right.post_recv(far.sge())
        left.send((len(mine), key.key, 0))
    else:
        far.write(theirs)
        left.post_recv((len(mine), key.key, 0))
        right.send(far.sge(0, len(theirs)))
    run(ends)
    assert all(done.opcode != CqeOpcode.SIG_ERR for done in left.cq.drain())
    assert far.read(0, len(theirs)) == theirs
    assert store.read(0, len(mine)) == mine


def test_domains_of_different_form(ends, sides, key, store, far):
    """CRC32 every 512 bytes in store, T10-DIF every 4096 on the wire."""
    left, right = sides
    data = DATA * 2
    stored = signed(data, lambda block, _: crc32(block))
    stream = signed(data, dif, 4096)
    room, distant = ends[0].region(8192), ends[1].region(8192)
    room.write(stored)
    key.configure(left, [room.sge(0, len(stored))], mem=Crc(), wire=Dif(block=4096))
    right.post_recv(distant.sge())
    left.send((len(stored), key.key, 0))
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.REQ]
    assert distant.read(0, len(stream)) == stream
    room.write(bytes(len(stored)))
    left.post_recv((len(stored), key.key, 0))
    right.send(distant.sge(0, len(stream)))
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.RESP_SEND]
    assert room.read(0, len(stored)) == stored


# Errors.


def send_bad(ends, sides, key, store, far, at, *, mem=None, check=0xFF, flip=0xFF, **options):
    """Send blocks one byte of whose signatures is wrong; what the sender is told."""
    left, right = sides
    stored = bytearray(signed(DATA, dif))
    stored[at] ^= flip
    store.write(bytes(stored))
    both(left, key, store, len(stored), mem=mem or Dif(), check=check)
    right.post_recv(far.sge())
    left.send((len(DATA), key.key, 0), **options)
    run(ends)
    assert right.cq.drain()[0].opcode == CqeOpcode.RESP_SEND
    return left.cq.drain()


@pytest.mark.parametrize(
    ("byte", "syndrome"), [(0, GUARD), (1, GUARD), (2, APP), (3, APP), (4, REF), (7, REF)]
)
def test_wrong_signature_is_reported_and_the_transfer_goes_on(
    ends, sides, key, store, far, byte, syndrome
):
    """Found and computed value, the block's offset in the stream, the key and the queue pair."""
    report, done = send_bad(ends, sides, key, store, far, 520 * 2 + 512 + byte)
    assert (report.opcode, done.opcode) == (CqeOpcode.SIG_ERR, CqeOpcode.REQ)
    assert (report.syndrome, report.domain, report.offset) == (syndrome, MEMORY, 2 * 520)
    assert (report.mkey, report.qpn) == (key.key, sides[0].qpn)
    right_value = int.from_bytes(dif(DATA[1024:1536], 2), "big")
    assert report.computed == right_value
    assert report.found == right_value ^ 0xFF << 8 * (7 - byte)
    assert far.read(0, len(DATA)) == DATA


@pytest.mark.parametrize(
    ("rule", "opcodes"),
    [
        ('action = "drop"\nmatch.opcode = "SIG_ERR"', [CqeOpcode.REQ]),
        (
            f'action = "replace"\ndata = "{bytes(56).hex()}"\nmatch.opcode = "SIG_ERR"',
            [CqeOpcode.SIG_ERR, CqeOpcode.REQ],
        ),
        ('action = "fail"\nmatch.opcode = "SIG_ERR"', [CqeOpcode.SIG_ERR, CqeOpcode.REQ]),
    ],
    ids=["drop", "replace", "fail"],
)
def test_a_report_of_a_signature_meets_the_faults_of_completions(
    ends, sides, key, store, far, rule, opcodes
):
    """Nothing can fail in the place of a report, so it is written then as it is."""
    function = ends[0].function
    injector = Injector(function)
    function.use_faults(injector)
    injector.load(load(f'[[rule]]\npoint = "cqe"\nmatch.qpn = {sides[0].qpn}\n{rule}\n'))
    done = send_bad(ends, sides, key, store, far, 520 * 2 + 512)
    assert [one.opcode for one in done] == opcodes
    if "replace" in rule:
        assert done[0].offset == 0


@pytest.mark.parametrize(("byte", "check"), [(0, CHECK_APP | CHECK_REF), (2, CHECK_GUARD), (4, 0)])
def test_bytes_outside_the_mask_are_not_checked(ends, sides, key, store, far, byte, check):
    (done,) = send_bad(ends, sides, key, store, far, 512 + byte, check=check)
    assert done.opcode == CqeOpcode.REQ


def test_application_tag_has_a_mask_of_its_own(ends, sides, key, store, far):
    mem = Dif(app_mask=0xFF00)
    (done,) = send_bad(ends, sides, key, store, far, 515, mem=mem, check=CHECK_APP)
    assert done.opcode == CqeOpcode.REQ


@pytest.mark.parametrize(
    ("escape", "ref", "is_checked"),
    [(0, 0, True), (1, 0, False), (2, 0, True), (2, ONES32, False)],
    ids=["no escape", "by app tag", "ref tag does not say so", "by both tags"],
)
def test_escape(ends, sides, key, store, far, escape, ref, is_checked):
    """Blocks that were never written carry tags of ones: they are not checked."""
    left, right = sides
    store.write(DATA[:512] + struct.pack(">HHI", 0x1234, 0xFFFF, ref))
    both(left, key, store, 520, mem=Dif(escape=escape))
    right.post_recv(far.sge())
    left.send((512, key.key, 0))
    run(ends)
    opcodes = [done.opcode for done in left.cq.drain()]
    assert (CqeOpcode.SIG_ERR in opcodes) == is_checked


def test_wrong_signature_that_arrives(ends, sides, key, store, far):
    left, right = sides
    stream = bytearray(signed(DATA, lambda block, _: crc32(block)))
    stream[10] ^= 1
    far.write(bytes(stream))
    key.configure(left, [store.sge(0, len(DATA))], wire=Crc())
    left.post_recv((len(DATA), key.key, 0))
    right.send(far.sge(0, len(stream)))
    run(ends)
    report, done = left.cq.drain()
    assert (report.opcode, done.opcode) == (CqeOpcode.SIG_ERR, CqeOpcode.RESP_SEND)
    assert (report.syndrome, report.domain, report.offset) == (GUARD, WIRE, 0)
    assert report.found == zlib.crc32(DATA[:512]) << 32
    assert report.computed == zlib.crc32(bytes(stream[:512])) << 32


def test_one_report_until_the_driver_has_seen_it(ends, sides, key, store, far):
    """Later errors are silent until a UMR sets the key's error count again."""
    left, right = sides
    store.write(bytes(BLOCKS * 520))
    for expected in (1, 0):
        if expected:
            both(left, key, store, BLOCKS * 520, mem=Dif())
        right.post_recv(far.sge())
        left.send((len(DATA), key.key, 0))
        run(ends)
        reports = [done for done in left.cq.drain() if done.opcode == CqeOpcode.SIG_ERR]
        assert len(reports) == expected
    both(left, key, store, BLOCKS * 520, mem=Dif())
    right.post_recv(far.sge())
    left.send((len(DATA), key.key, 0))
    run(ends)
    assert CqeOpcode.SIG_ERR in [done.opcode for done in left.cq.drain()]


@pytest.fixture
def draining(ends, key, store):
    """Two connected queue pairs; signature errors, as of the key's block, drain the left one."""
    left, right = (end.queue_pair() for end in ends)
    left.init()
    left.node.driver.must(
        Op.INIT2INIT_QP, qpn=left.qpn, opt_param_mask=1 << 11, qpc={"drain_sigerr": 1}
    )
    right.init()
    for one, other in ((left, right), (right, left)):
        one.to_rtr(other.node.lid, other.qpn, 0)
        one.to_rts(0)
    store.write(bytes(520))
    both(left, key, store, 520, mem=Dif())
    ends[0].events()
    return left, right


@pytest.mark.parametrize("fence", [FENCE, 0], ids=["fenced", "at once"])
def test_error_stops_a_send_queue_that_asks_for_it(ends, draining, key, store, far, fence):
    """Pipelining: the answer behind bad data stays where it is until the driver has decided."""
    left, right = draining
    right.post_recv(far.sge(1024, 64))
    left.write((far.key, far.va), (512, key.key, 0), flags=0)
    second = left.send(store.sge(0, 16), flags=fence | 0b10 << 2)
    run(ends)
    assert [done.opcode for done in left.cq.drain()] == [CqeOpcode.SIG_ERR]
    assert (EventType.SQ_DRAINED, left.qpn) in ends[0].events()
    assert left.state is QpState.SQD
    assert not right.cq.drain()
    query = left.node.driver.must(Op.QUERY_QP, qpn=left.qpn).qpc
    assert query.hw_sq_wqebb_counter == second
    left.node.driver.must(Op.SQD_RTS_QP, qpn=left.qpn)
    run(ends)
    assert [done.wqe_counter for done in left.cq.drain()] == [second]
    assert right.cq.drain()[0].opcode == CqeOpcode.RESP_SEND


@pytest.mark.parametrize("more", [0, 1])
def test_requests_that_have_left_complete_before_the_send_queue_is_drained(
    ends, draining, key, store, far, more
):
    """IBTA 10.3.1: SQ_DRAINED follows the completion of all requests that have begun."""
    left, _ = draining
    good_one, bad = ((store.sge(0, 16), 0b10 << 2), ((512, key.key, 0), 0b10 << 2))
    requests = [good_one, bad] + [good_one] * more
    posted = [
        left.write((far.key, far.va), data, flags=flags, ring=number == len(requests) - 1)
        for number, (data, flags) in enumerate(requests)
    ]
    for _ in range(3):
        run(ends)
    found = left.cq.drain()
    assert (EventType.SQ_DRAINED, left.qpn) in ends[0].events()
    assert left.state is QpState.SQD
    left.node.driver.must(Op.SQD_RTS_QP, qpn=left.qpn)
    for _ in range(3):
        run(ends)
    done = [one.opcode for one in found]
    assert done.count(CqeOpcode.SIG_ERR) == 1
    assert done.count(CqeOpcode.REQ) >= 2, "those that have left"
    found += left.cq.drain()
    assert [one.wqe_counter for one in found if one.opcode == CqeOpcode.REQ] == posted


@pytest.mark.parametrize("op", ["send", "read"])
def test_absent_pages_of_a_block(ends, sides, key, far, op):
    """Whoever needs some bytes of it waits for them as without signatures."""
    pager = Pager(ends[0])
    paged = PagedRegion(pager, 4096)
    paged.write(DATA[:512])
    key.configure(sides[0], [paged.sge(0, 512)], wire=Crc())
    if op == "send":
        sides[1].post_recv(far.sge())
        sides[0].send((64, key.key, 0))
    else:
        sides[1].read((key.key, 0), far.sge(0, 64))
    run(ends)
    event = pager.fault()
    paged.bring_in()
    pager.must_resume(event)
    run(ends)
    good(sides[op == "read"])
    assert far.read(0, 64) == DATA[:64]


# What is refused.


@pytest.mark.parametrize(
    "basic",
    [
        {"bsf_size_sbs": 0},
        {"bsf_size_sbs": 3 << 6},
        {"mem": 5},
        {"mem": 7},
        {"m_bfs_psv": 0xFFFFFF},
        {"m_bfs_psv": 0xF0000001},
        {"bsf_size_sbs": 0x90},
    ],
    ids=["basic", "with crypto", "a gigabyte", "unknown size", "no psv", "format", "no wire"],
)
def test_bsf_that_cannot_be(ends, sides, key, store, basic):
    left, _ = sides
    key.post(left, [store.sge(0, 520)], Dif(), None, wrong=basic)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR
    assert ends[0].hca.mkeys.get(key.index).free


def test_psv_of_another_domain(ends, sides, key, store):
    left, _ = sides
    other = ends[0].driver.alloc_pd()
    key.mem_psv = ends[0].driver.must(Op.CREATE_PSV, pd=other, num_psv=1).psv0_index
    key.post(left, [store.sge(0, 520)], Dif(), None)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR


@pytest.mark.parametrize("what", ["another domain", "no such"])
def test_set_psv_of_what_is_not_ours(ends, sides, what):
    left, _ = sides
    other = ends[0].driver.alloc_pd()
    number = ends[0].driver.must(Op.CREATE_PSV, pd=other, num_psv=1).psv0_index
    left.post(Opcode.SET_PSV, SET_PSV.pack(number + (what == "no such"), 0, 1, 1))
    assert failure(left) == CqeSyndrome.LOCAL_QP_OP_ERR
    assert ends[0].hca.psvs.get(number).transient_sig == 0


def test_set_psv_that_is_too_short(ends, sides, key):
    """The PSV's values stand behind it, where the next request begins."""
    left, _ = sides
    psv = ends[0].hca.psvs.get(key.mem_psv)
    before = psv.transient_sig
    index = left.post(Opcode.SET_PSV, SET_PSV.pack(key.mem_psv, 0, 1, 1), ring=False)
    ds = (left.qpn << 8 | 1).to_bytes(4, "big")
    left.put(left.sq_offset + index % left.sq_size * WQEBB + 4, ds)
    left.ring()
    assert failure(left) == CqeSyndrome.LOCAL_QP_OP_ERR
    assert psv.transient_sig == before


@pytest.mark.parametrize(
    ("size", "octwords", "syndrome"),
    [(32, 4, CqeSyndrome.MW_BIND_ERR), (64, 8, CqeSyndrome.LOCAL_QP_OP_ERR)],
    ids=["half of it", "behind the request"],
)
def test_bsf_that_is_not_all_there(ends, sides, key, store, size, octwords, syndrome):
    left, _ = sides
    xlt = pad64(KLM.pack(*store.sge(0, 520)))
    bsf = key.bsf(Dif(), None, CHECK_APP, None)[:size]
    umr(left, key.key, flags=0, mask=BSF_EN, bsf_en=1, xlt=xlt, bsf=bsf, octwords=octwords)
    assert failure(left) == syndrome
    assert ends[0].hca.mkeys.get(key.index).signature is None


def test_key_without_room_for_a_bsf(ends, sides, store):
    left, _ = sides
    key = SignatureKey(ends[0], bsf_octword_size=0)
    key.post(left, [store.sge(0, 520)], Dif(), None)
    assert failure(left) == CqeSyndrome.MW_BIND_ERR


def test_access_beyond_the_signed_stream(ends, sides, key, store, far):
    left, right = sides
    both(left, key, store, 520, mem=Dif(), check=0)
    right.post_recv(far.sge())
    left.send((513, key.key, 0))
    assert failure(left) == CqeSyndrome.LOCAL_PROT_ERR


def scattered(node, region, size, depth):
    """A key of ``size`` ranges of one byte, so many keys deep."""
    key, va = region.key, region.va
    for _ in range(depth):
        key = indirect_key(node, AccessMode.KLMS, [(1, key, va + at) for at in range(size)], size)
        va = 0
    return key


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("block", "depth", "outcome"), [(512, 3, None), (4096, 3, CqeSyndrome.LOCAL_PROT_ERR)]
)
def test_a_block_in_very_many_pieces_is_refused(ends, sides, key, block, depth, outcome):
    """All of a block is read for any part of it, in one round: that has to have a limit."""
    left, _ = sides
    length = 4096
    source = ends[0].region(length)
    data = bytes(range(256)) * (length // 256)
    source.write(data)
    ranges = [(length, scattered(ends[0], source, length, depth), 0)]
    key.configure(left, ranges, wire=Crc(block=block, bfs=CRC64, seed=ONES64))
    target = ends[1].region(2 * length)
    left.write((target.key, target.va), (length, key.key, 0))
    run(ends)
    if outcome is not None:
        assert failure(left) == outcome
        return
    good(left)
    wanted = signed(data, lambda part, _: guards.crc64_xp10(part, ONES64).to_bytes(8, "little"))
    assert target.read()[: len(wanted)] == wanted


def test_atomic_on_signed_memory(ends, sides, key, store, far):
    left, right = sides
    both(left, key, store, 520, mem=Dif(), check=0)
    right.fetch_add((key.key, 0), far.sge(0, 8), 1)
    assert failure(right) == CqeSyndrome.REMOTE_ACCESS_ERR


def test_signatures_are_turned_off_again(ends, sides, key, store, far):
    """BSF_EN in the mask and not in the context: the key is a plain list."""
    left, right = sides
    both(left, key, store, 520, mem=Dif(), check=0)
    stored = ends[0].hca.mkeys.get(key.index)
    umr(left, key.key, flags=0, mask=BSF_EN, bsf_en=0)
    ends[0].settle()
    good(left)
    assert stored.signature is None
    store.write(bytes(range(256)) * 3)
    right.post_recv(far.sge())
    left.send((520, key.key, 0))
    run(ends)
    good(left)
    assert far.read(0, 520) == store.read(0, 520)


def test_read_from_the_middle_in_many_packets(packet_pair):
    """The wire's addresses are not those of memory, which has no signatures."""
    left, right = packet_pair
    reader, owner = (end.queue_pair() for end in packet_pair)
    connect(reader, owner, mtu=1)
    store, far = right.region(len(DATA)), left.region(2 * len(DATA))
    store.write(DATA)
    key = SignatureKey(right).configure(owner, [store.sge()], wire=Dif())
    reader.read((key.key, 512), far.sge(0, 520))
    run(packet_pair)
    good(reader)
    assert far.read(0, 520) == signed(DATA, dif)[520:1040]


def test_signatures_turned_off_under_a_message(packet_pair, packet_wire):
    """The wire's signatures were in its length: the packets that are left find no data."""
    ends = packet_pair
    sides = [end.queue_pair() for end in ends]
    connect(*sides, mtu=1)
    left, right = sides
    updater = ends[0].queue_pair()
    updater.init().to_rtr(ends[0].lid, updater.qpn).to_rts()
    store, far = ends[0].region(2 * len(DATA)), ends[1].region(2 * len(DATA))
    key = SignatureKey(ends[0]).configure(left, [store.sge(0, len(DATA))], wire=Dif(), check=0)
    right.post_recv(far.sge())
    packet_wire.room = 1
    # Three segments fill the request's 64 bytes to the end.
    left.send(store.sge(0, 1), store.sge(0, 1), (len(DATA), key.key, 0))
    ends[0].function.run()
    assert packet_wire.sent == 1
    umr(updater, key.key, flags=0, mask=BSF_EN, bsf_en=0)
    run(ends)
    assert failure(left) == CqeSyndrome.LOCAL_PROT_ERR
    assert left.state == QpState.ERR
    good(updater)
