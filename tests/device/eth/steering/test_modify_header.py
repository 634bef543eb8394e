"""Modify header contexts: what they change in packets, what depends on it, what is refused."""

import pytest
from helpers.random.packets import packets
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.eth.checksum import verify
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import (
    add_to_field,
    context_fields,
    copy_field,
    entry_fields,
    set_field,
    to_table,
    to_tir,
)
from emu.driver.ethernet.frames import TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeChecked
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import SetFte
from layouts.enums.modify_header import ModifyField
from layouts.steering.flow_match import fte_match_param

F = ModifyField
MISC_2 = 1 << 3
MAX_CHANGES = 1024
"""How many changes a packet may have before it is lost."""
WIDTHS = {
    "dmac_47_16": 32, "smac_15_0": 16, "first_vid": 12, "first_prio": 3, "ttl_hoplimit": 8,
    "ip_dscp": 6, "ip_ecn": 2, "src_ipv4_src_ipv6": 128, "dst_ipv4_dst_ipv6": 128,
    "tcp_dport": 16, "tcp_flags": 9, "udp_dport": 16, "udp_sport": 16,
}  # fmt: skip
"""Bits of fte_match_set_lyr_2_4's fields (mlx5_ifc.h)."""
V6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


def metadata(number, value):
    param = fte_match_param.new()
    setattr(param.misc_parameters_2, f"metadata_reg_c_{number}", value)
    return bytes(param)


@pytest.fixture
def rq(node):
    return ReceiveQueue(node)


@pytest.fixture
def tir(driver, td, rq):
    return to_tir(create_direct_tir(driver, td, rq.rqn))


@pytest.fixture
def root(flows):
    """A table with one group that every packet matches."""
    table = flows.table(1, log_size=0)
    group = flows.group(table, 0, 0)
    flows.set_root(table)
    return table, 0, group


@pytest.fixture
def delivered(hca, rq):
    """What a packet is when it has come: its completion and its bytes; None if it does not."""
    buffers = Buffers(rq)

    def send(packet):
        buffers.post()
        arrive(hca, Frame(packet if isinstance(packet, bytes) else packet.frame()))
        return next(iter(buffers.drain()), None)

    return send


CASES = {
    "MACs": ({}, [set_field(F.OUT_DMAC_47_16, 0x02010203, 32), set_field(F.OUT_SMAC_15_0, 7, 16)],
             {"dmac_47_16": 0x02010203, "smac_15_0": 7}),
    "VID": ({"tags": ((0x8100, 0xA005),)}, [set_field(F.OUT_FIRST_VID, 7, 12)],
            {"first_vid": 7, "first_prio": 5}),
    "TTL": ({}, [add_to_field(F.OUT_IP_TTL, 0xFF)], {"ttl_hoplimit": 63}),
    "hop limit": (V6, [add_to_field(F.OUT_IPV6_HOPLIMIT, 0xFF)], {"ttl_hoplimit": 63}),
    "DSCP": ({"tos": 3}, [set_field(F.OUT_IP_DSCP, 9, 6)], {"ip_dscp": 9, "ip_ecn": 3}),
    "DSCP 6": ({"tos": 3, **V6}, [set_field(F.OUT_IP_DSCP, 9, 6)], {"ip_dscp": 9, "ip_ecn": 3}),
    "IPv4": ({}, [set_field(F.OUT_SIPV4, 0x0B000001, 32), set_field(F.OUT_DIPV4, 9, 8)],
             {"src_ipv4_src_ipv6": 0x0B000001, "dst_ipv4_dst_ipv6": 0x0A000009}),
    "IPv6": (V6, [set_field(F.OUT_SIPV6_127_96, 5, 32), set_field(F.OUT_DIPV6_31_0, 9, 32)],
             {"src_ipv4_src_ipv6": 5 << 96 | 1, "dst_ipv4_dst_ipv6": 9}),
    "UDP": ({"protocol": UDP}, [set_field(F.OUT_UDP_DPORT, 7006, 16)],
            {"udp_dport": 7006, "udp_sport": 0x4D2}),
    "TCP": ({}, [add_to_field(F.OUT_TCP_DPORT, 1), set_field(F.OUT_TCP_FLAGS, 1, 1, offset=1)],
            {"tcp_dport": 0x51, "tcp_flags": 0x1A}),
    "copy": ({}, [copy_field(F.OUT_TCP_SPORT, F.OUT_TCP_DPORT, 8, offset=8)],
             {"tcp_dport": 0xD250}),
    "other protocol": ({"protocol": UDP}, [set_field(F.OUT_TCP_DPORT, 1, 16)], {"udp_dport": 80}),
    "no tag": ({}, [set_field(F.OUT_FIRST_VID, 7, 12)], {"first_vid": 0}),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "actions", "want"), CASES.values(), ids=CASES)
def test_change(flows, root, tir, delivered, fields, actions, want):
    flows.entry(*root, tir, modify=flows.context(*actions))
    packet = EthPacket(**fields)
    entry, data = delivered(packet)
    assert verify(parse(data))[1:] == (True, True)
    assert entry.hds_ip_ext == CqeChecked.L2 | CqeChecked.L3 | CqeChecked.L4
    assert len(data) == len(packet.frame())
    matching = flows.table(1, log_size=0)
    masks = {name: (1 << WIDTHS[name]) - 1 for name in want}
    group = flows.group(matching, 0, 0, **masks)
    flows.entry(matching, 0, group, tir, **want)
    flows.set_root(matching)
    assert delivered(data)[1] == data, "it comes back, and has other fields"
    for name, value in want.items():
        flows.delete(matching, 0)
        flows.entry(matching, 0, group, tir, **want | {name: value ^ 1})
        assert delivered(data) is None


def test_a_packet_longer_than_its_frame_is_changed(flows, root, tir, delivered):
    """As it is matched: rdma-core's tests (tests/utils.py: gen_packet) send such packets."""
    actions = (add_to_field(F.OUT_IP_TTL, 0xFF), copy_field(F.OUT_SIPV4, F.METADATA_REG_B, 32))
    flows.entry(*root, tir, modify=flows.context(*actions))
    frame = bytearray(EthPacket(payload=bytes(100)).frame())
    frame[16:18] = (2000).to_bytes(2, "big")
    entry, data = delivered(bytes(frame))
    assert (data[22], entry.immediate) == (frame[22] - 1, 0x0A000001)
    assert (entry.hds_ip_ext, entry.l4_l3_hdr_type) == (CqeChecked.L2, 0)


def test_register_b_goes_into_the_completion(flows, root, tir, delivered):
    """core/en_rx.c: mlx5e_build_rx_skb's caller looks for a chain in ft_metadata."""
    frame = EthPacket().frame()
    flows.entry(*root, tir, modify=flows.context(set_field(F.METADATA_REG_B, 0x1234, 16)))
    entry, data = delivered(EthPacket())
    assert (entry.immediate, data) == (0x1234, frame)
    flows.modify(*root, tir)
    entry, data = delivered(EthPacket())
    assert (entry.immediate, data) == (0, frame)


@pytest.fixture
def by_register(flows, root, tir):
    """Packets go on from the root to a table that matches register C 3 for 80."""
    second = flows.table(2, log_size=1)
    one = flows.group(second, 0, 0, enable=MISC_2, match_criteria=metadata(3, 0xFFFFFFFF))
    fields = entry_fields(second, 0, one, tir)
    fields["flow_context"]["match_value"] = metadata(3, 80)
    flows.driver.must(Op.SET_FLOW_TABLE_ENTRY, **fields)
    return second


def test_decision_depends_on_what_is_copied(flows, root, by_register, delivered):
    """No group matches ports, and yet they decide; what is kept of decisions knows that."""
    context = flows.context(copy_field(F.OUT_TCP_DPORT, F.METADATA_REG_C_3, 16))
    flows.entry(*root, to_table(by_register), modify=context)
    for _ in range(2):
        assert delivered(EthPacket(ports=b"\0\1\0\x50"))
        assert not delivered(EthPacket(ports=b"\0\1\0\x51"))
    assert not delivered(EthPacket(protocol=UDP))
    flows.modify(*root, to_table(by_register))
    assert not delivered(EthPacket(ports=b"\0\1\0\x50")), "an empty register is 0"
    assert not flows.driver.command(
        Op.DEALLOC_MODIFY_HEADER_CONTEXT, modify_header_id=context
    ).status


def test_later_tables_match_what_has_been_changed(flows, root, tir, delivered):
    second = flows.table(2, log_size=1)
    flows.entry(second, 0, flows.group(second, 0, 0, tcp_dport=0xFFFF), tir, tcp_dport=81)
    context = flows.context(add_to_field(F.OUT_TCP_DPORT, 1))
    flows.entry(*root, to_table(second), modify=context)
    assert delivered(EthPacket(ports=b"\0\1\0\x50"))
    assert not delivered(EthPacket(ports=b"\0\1\0\x51"))


def test_mark_goes_through_tables_without_one(flows, root, tir, delivered):
    second = flows.table(2, log_size=0)
    group = flows.group(second, 0, 0)
    flows.entry(second, 0, group, tir)
    flows.entry(*root, to_table(second), tag=5)
    assert delivered(EthPacket())[0].sop_drop_qpn == 5
    flows.modify(second, 0, group, tir, tag=7, mask=SetFte.FLOW_TAG)
    assert delivered(EthPacket())[0].sop_drop_qpn == 7


# -- refused


@pytest.mark.parametrize(
    "action",
    [
        set_field(F.OUT_ETHERTYPE, 0x800, 16),
        set_field(0xFFF, 0, 1),
        set_field(F.OUT_IP_TTL, 0, 9),
        set_field(F.OUT_IP_TTL, 0, 1, offset=8),
        set_field(F.OUT_IP_TTL, 0, 0),
        set_field(F.OUT_IP_TTL, 4, 2),
        add_to_field(0, 1),
        copy_field(F.OUT_IP_TTL, F.METADATA_REG_B, 8, source_offset=1),
        copy_field(F.METADATA_REG_B, F.OUT_IP_TTL, 8, offset=1),
        copy_field(F.METADATA_REG_B, 0x49, 8),
        bytes(8),
        b"\x40" + bytes(7),
    ],
    ids=bytes.hex,
)
def test_action_refused(refused, action):
    good = set_field(F.OUT_IP_TTL, 1, 8)
    refused(Status.BAD_PARAM_ERR, Op.ALLOC_MODIFY_HEADER_CONTEXT, **context_fields(good, action))


def test_context_refused(driver, refused):
    good = set_field(F.OUT_IP_TTL, 1, 8)
    for number in (0, 33, 255):
        fields = context_fields(*[good] * 40, number=number)
        refused(Status.BAD_PARAM_ERR, Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields)
    short = context_fields(good, number=2)
    refused(Status.BAD_INP_LEN_ERR, Op.ALLOC_MODIFY_HEADER_CONTEXT, **short)
    for kind in (FlowTableType.RDMA_TX, FlowTableType.RDMA_RX):
        fields = {**context_fields(good), "table_type": kind}
        refused(Status.BAD_PARAM_ERR, Op.ALLOC_MODIFY_HEADER_CONTEXT, **fields)


def test_context_in_use(flows, root, tir, refused):
    context = flows.context(set_field(F.OUT_IP_TTL, 1, 8))
    flows.entry(*root, tir, modify=context)
    free = {"modify_header_id": context}
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_MODIFY_HEADER_CONTEXT, **free)
    flows.delete(*root[:2])
    flows.driver.must(Op.DEALLOC_MODIFY_HEADER_CONTEXT, **free)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_MODIFY_HEADER_CONTEXT, **free)
    fields = entry_fields(*root, tir, modify=context)
    refused(Status.BAD_RES_ERR, Op.SET_FLOW_TABLE_ENTRY, **fields)


@pytest.mark.hostile
def test_circle_of_changes_ends(hca, flows, root, tir, delivered):
    """Entries that ignore levels can lead in a circle: the packet is lost, its cost bounded."""
    context = flows.context(*[add_to_field(F.OUT_IP_TTL, 1)] * 32)
    fields = entry_fields(*root, to_table(root[0]), tir, modify=context)
    flows.driver.must(Op.SET_FLOW_TABLE_ENTRY, ignore_flow_level=1, **fields)
    before = hca.budget.steps
    assert delivered(EthPacket()) is None
    assert hca.budget.steps - before < MAX_CHANGES


@pytest.mark.hostile
def test_random_actions(driver, hca, flows, root, tir, delivered):
    """Whatever is taken changes no length, and no right checksum into a wrong one."""

    @settings(suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.lists(actions(), min_size=1, max_size=4), packets((TCP, UDP)))
    def change(chosen, packet):
        answer = driver.command(Op.ALLOC_MODIFY_HEADER_CONTEXT, **context_fields(*chosen))
        assert answer.status in (Status.OK, Status.BAD_PARAM_ERR)
        if answer.status != Status.OK:
            return
        number = answer.out.modify_header_id
        flows.entry(*root, tir, modify=number)
        frame = packet.frame()
        _, data = delivered(packet)
        assert len(data) == len(frame)
        assert verify(parse(data))[1:] == verify(parse(frame))[1:]
        flows.delete(*root[:2])
        driver.must(Op.DEALLOC_MODIFY_HEADER_CONTEXT, modify_header_id=number)

    change()


@st.composite
def actions(draw):
    """Actions of the known kinds with any numbers, and any eight bytes."""
    field, bits = st.sampled_from(sorted(F)), st.integers(0, 31)
    length = draw(st.integers(1, 32))
    data = draw(st.integers(0, (1 << length) - 1))
    return draw(
        st.one_of(
            st.builds(set_field, field, st.just(data), st.just(length), bits),
            st.builds(set_field, field, st.just(data & 1), st.just(1)),
            st.builds(add_to_field, field, st.integers(0, 0xFFFFFFFF)),
            st.builds(copy_field, field, field, st.integers(1, 16), bits, bits),
            st.builds(copy_field, field, field, st.integers(1, 8)),
            st.binary(min_size=8, max_size=8),
        )
    )
