"""Work requests in the trace: decoded by names, told apart by what a UMR is used for, counted."""

import pytest

from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.port.eth.frame import Frame
from emu.device.trace.event import TracePoint
from emu.device.trace.recorder import EventList, Recorder
from emu.device.trace.text import body
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.keys.signatures import Crc, Dif, SignatureKey
from emu.driver.keys.umr import INLINE, OFFSET, FastRegKey, MemoryWindow, umr
from emu.driver.verbs.segments import data_segments
from emu.driver.world.cable import arrive
from firmware_cmds import TABLE
from layouts.enums.caps import PortType
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpType
from layouts.enums.wqe import EthChecksum, Opcode
from layouts.rings.eth_wqe import ETH
from layouts.rings.wqe import av

IOVA = 0x1234_0000_0000


@pytest.fixture
def events():
    return EventList()


@pytest.fixture
def recorder(events, clock):
    return Recorder(events, clock)


@pytest.fixture
def function(model, memory, irqs, clock, options, wire, recorder):
    return Function(model, options, TABLE, memory, irqs, clock, wire, recorder)


@pytest.fixture
def traced(events, node, qps):
    """Runs what is posted; the wqe events of it."""

    def run(action):
        del events[:]
        action(qps)
        node.settle()
        return [event.fields for event in events.of(TracePoint.WQE)]

    return run


@pytest.fixture
def region(node):
    return node.region(4096, va=IOVA)


@pytest.mark.parametrize("size", [4, 8])
def test_masked_atomics(region, traced, size):
    """Their segments depend on opmod; the data come right behind."""
    remote, sge = (region.key, IOVA), region.sge(64, size)

    def action(qps):
        qps[0].masked_compare_swap(remote, sge, 1, 2, (3, 4))
        qps[0].masked_fetch_add(remote, sge, 5, 6)

    swap, add = traced(action)
    data = [{"byte_count": size, "lkey": region.key, "addr": IOVA + 64}]
    assert (swap["op"], add["op"]) == ("ATOMIC_MASKED_CS", "ATOMIC_MASKED_FA")
    assert swap["data"] == add["data"] == data
    operands = {
        4: {"masked_cs4_seg": {"swap": 2, "compare": 1, "swap_mask": 4, "compare_mask": 3}},
        8: {"masked_atomic_seg": {
            "swap_add": 2, "compare": 1, "swap_add_mask": 4, "compare_mask": 3,
        }},
    }  # fmt: skip
    assert swap.items() >= operands[size].items()
    name = "masked_fa4_seg" if size == 4 else "masked_fa_seg"
    assert add[name] == {"add": 5, "field_boundary": 6}


def test_packet_of_ip_over_infiniband(events, node, region):
    """Its Ethernet segment stands behind the address vector and a pad."""
    sender = node.queue_pair(QpType.UD, ulp_stateless_offload_mode=1)
    sender.init(q_key=1, mtu=5, log_msg_max=12)
    sender.to_rtr(mtu=0, log_msg_max=0)
    sender.to_rts()
    vector = bytes(av.new(dqp_dct=1 << 31 | 0x77, rlid=9).buf)
    segment = (ETH.pack(int(EthChecksum.L4), 100, 0, 40 << 16)[:14] + bytes(40)).ljust(64, b"\0")
    sender.post(Opcode.LSO, vector, bytes(16), segment, *data_segments([region.sge(0, 300)]))
    node.settle()
    (event,) = (one.fields for one in events.of(TracePoint.WQE))
    assert event["op"] == "LSO"
    assert event["av"]["rlid"] == 9
    assert event["eth_seg"]["mss"] == 100
    assert event["headers"] == {"inline": 40}
    assert event["data"] == [{"byte_count": 300, "lkey": region.key, "addr": IOVA}]


def test_registration(node, traced):
    key = FastRegKey(node)
    (event,) = traced(lambda qps: key.register(qps[0], [0x1000, 0x2000], IOVA, 8192, variant=7))
    assert event["op"] == "UMR register"
    assert event["imm"] == key.key
    assert event["flags"] == "SIGNALED"
    assert event["umr"]["flags"] == "MUST_BE_FREE|INLINE"
    assert event["umr"]["mask"].startswith("LEN|PAGE_SIZE|START_ADDR|EN_RINVAL|KEY|LR|")
    assert event["mkc"] == {
        "len": 8192, "length64": 0, "log_page_size": 12, "start_addr": IOVA, "en_rinval": 1,
        "mkey_7_0": 7, "lr": 1, "lw": 1, "rr": 1, "rw": 1,
        "small_fence_on_rdma_read_response": 0, "free": 0,
    }  # fmt: skip
    assert event["list"] == [{"ptag": 0x1003}, {"ptag": 0x2003}]


def test_registration_by_pointer(node, traced):
    key = FastRegKey(node, entries=32)
    pointer = (256, 0x10000, 0x7000)
    (event,) = traced(
        lambda qps: umr(qps[0], key.key, flags=0x20, mask=1, pointer=pointer, octwords=16)
    )
    assert event["list"] == [{"byte_count": 256, "lkey": 0x10000, "addr": 0x7000}]


def test_invalidation_bind_and_change(node, traced, region):
    key, window = FastRegKey(node), MemoryWindow(node, 2)

    def work(qps):
        key.invalidate(qps[0])
        window.bind(qps[0], region, 16, 32)
        window.unbind(qps[0])
        umr(qps[0], key.key, flags=OFFSET | INLINE, mask=0, xlt=b"\1" * 16, offset=2)
        umr(qps[0], key.key, flags=0, mask=1 << 7, pd=node.pdn)

    events = traced(work)
    assert [event["op"] for event in events] == [
        "UMR invalidate", "UMR bind", "UMR invalidate", "UMR translations", "UMR change",
    ]  # fmt: skip
    assert events[1]["list"] == [{"bcount": 32, "key": region.key, "va": IOVA + 16}]
    assert events[3]["umr"]["xlt_offset"] == 2
    assert events[4]["mkc"] == {"pd": node.pdn}


def test_layout_with_signatures(node, traced, region):
    key = SignatureKey(node)
    events = traced(lambda qps: key.configure(qps[0], [region.sge(0, 520)], mem=Dif(), wire=Crc()))
    assert [event["op"] for event in events] == ["UMR bind", "SET_PSV", "SET_PSV"]
    layout, psv, _ = events
    assert layout["list"] == [{"bcount": 520, "key": region.key, "va": IOVA}]
    assert layout["bsf"]["basic"]["m_bfs_psv"] == key.mem_psv
    assert layout["bsf"]["m_inl"]["dif_apptag"] == 0xABCD
    assert "EN_SIGERR|BSF_EN" in layout["umr"]["mask"]
    assert psv["seg_set_psv"]["psv_num"] == key.mem_psv


def test_messages(node, traced, region):
    remote = region.key, IOVA
    (event,) = traced(lambda qps: qps[0].write(remote, region.sge(0, 8), b"inline"))
    assert (event["op"], event["ds"]) == ("RDMA_WRITE", 4)
    assert event["raddr_seg"] == {"raddr": IOVA, "rkey": region.key}
    assert event["data"] == [{"byte_count": 8, "lkey": region.key, "addr": IOVA}, {"inline": 6}]
    (event,) = traced(lambda qps: qps[0].fetch_add(remote, region.sge(0, 8), 5))
    assert event["atomic_seg"] == {"swap_add": 5}


def test_datagram(node, events):
    qp = node.queue_pair(QpType.UD).init(q_key=1, mtu=5, log_msg_max=12)
    qp.to_rtr(mtu=0, log_msg_max=0)
    qp.to_rts(0)
    qp.datagram({"dqp_dct": 5, "rlid": 1}, b"hello")
    node.settle()
    (event,) = events.of(TracePoint.WQE)
    assert event.fields["av"]["dqp_dct"] & 0xFFFFFF == 5
    assert event.fields["data"] == [{"inline": 5}]


@pytest.mark.parametrize("ds", [0, 1, 3, 8])
@pytest.mark.parametrize("opcode", [0x25, 0x20, 0x08, 0x77])
def test_requests_that_end_too_early(traced, ds, opcode):
    """Whatever a guest posts is an event, not an error."""
    (event,) = traced(lambda qps: qps[0].post(opcode, bytes(16 * max(ds - 1, 0))))
    assert event["op"]


def test_text_and_summary(node, traced, recorder, events):
    key = FastRegKey(node, mode=AccessMode.KLMS)
    traced(lambda qps: key.invalidate(qps[0]))
    text = body(events.of(TracePoint.WQE)[0])
    assert text.startswith(f"qpn {0x40:#x} 0 UMR invalidate ds=8 flags=SIGNALED imm={key.key:#x}")
    assert text.endswith("umr{flags=INLINE mask=FREE} mkc{free=1}")
    assert list(recorder.summary()) == ["1 work requests UMR invalidate"]


class TestEthernet:
    """Requests of a send queue: the Ethernet segment, inline headers by their length, the data."""

    @pytest.fixture
    def model(self):
        return LINKS["connectx6"][PortType.ETH]

    @pytest.fixture
    def td(self, driver):
        return alloc_td(driver)

    @pytest.fixture
    def sq(self, node, driver, td):
        return SendQueue(node, tisn=create_tis(driver, td))

    def test_frame_and_large_send(self, events, node, sq, region):
        header = EthPacket(payload=b"").frame()
        sq.send(region.sge(0, 100), cs_flags=0xC0, vlan=7)
        sq.send(region.sge(0, 100), opcode=Opcode.LSO, mss=50, headers=header)
        node.settle()
        frame, large = [event.fields for event in events.of(TracePoint.WQE)]
        assert (frame["qpn"], frame["op"], frame["ds"]) == (sq.sqn, "SEND", 3)
        assert frame["eth_seg"]["cs_flags"] == 0xC0
        assert frame["eth_seg"]["trailer"] == 0x8000_0007
        assert frame["data"] == [{"byte_count": 100, "lkey": region.key, "addr": IOVA}]
        assert (large["op"], large["eth_seg"]["mss"]) == ("LSO", 50)
        assert large["headers"] == {"inline": 54}
        assert large["data"] == frame["data"]
        done = [event.fields for event in events.of(TracePoint.CQE)]
        assert [entry["qpn"] for entry in done] == [sq.sqn, sq.sqn]

    def test_received_packet(self, events, node, driver, td):
        rq = ReceiveQueue(node)
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.set_root(table)
        tirn = create_direct_tir(driver, td, rq.rqn)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn), tag=9)
        Buffers(rq)
        arrive(node.hca, Frame(EthPacket(payload=bytes(100)).frame()))
        (done,) = events.of(TracePoint.CQE)
        assert (done.fields["cqn"], done.fields["flow_tag"]) == (rq.cq.cqn, 9)
        assert done.fields["data"]["byte_cnt"] == 154
        assert "flow_tag 9 RESP_SEND" in body(done)
