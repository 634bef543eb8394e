"""Transport interface receive: which RQ a packet goes to, and what the completion says of it."""

import pytest
from helpers.device.refusals import missing

from emu.device.objects.eth.tir import Tir
from emu.device.port.eth.headers import parse
from emu.driver.ethernet.frames import TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import (
    KEY,
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    modify_rqt,
    rss,
)
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeHashType
from layouts.enums.tir import DispType, RxHashFn, SelfLbBlock

FROM = bytes((66, 9, 149, 187)), bytes((161, 142, 100, 80))
PORTS = (2794).to_bytes(2, "big") + (1766).to_bytes(2, "big")
"""The first of the examples of Microsoft's RSS specification."""


@pytest.fixture
def chosen(function):
    """What a TIR does with a packet: (RQ number, hash, its type)."""

    def choose(tirn, packet=None):
        packet = packet or EthPacket(source=FROM[0], destination=FROM[1], ports=PORTS)
        rq, value, kind = function.hca.tirs.get(tirn).queue_of(parse(packet.frame()))
        return rq.handle, value, kind

    return choose


def test_direct(driver, td, rqns, chosen):
    tirn = create_direct_tir(driver, td, rqns[2])
    assert chosen(tirn) == (rqns[2], 0, 0)
    context = driver.must(Op.QUERY_TIR, tirn=tirn).tir_context
    assert (context.inline_rqn, context.transport_domain) == (rqns[2], td)


def test_toeplitz_picks_by_the_low_bits(driver, td, rqns, chosen):
    """The known values of the hash; a raw QP's TIR is not symmetric."""
    rqtn = create_rqt(driver, rqns)
    kind = CqeHashType.IPV4 | CqeHashType.L4_TCP
    tirn = create_indirect_tir(driver, td, rqtn, **rss(rx_hash_symmetric=0))
    assert chosen(tirn) == (rqns[0x51CCC178 % 4], 0x51CCC178, kind)
    tirn = create_indirect_tir(driver, td, rqtn, **rss())
    assert chosen(tirn) == (rqns[0xA65524FA % 4], 0xA65524FA, kind)
    back = EthPacket(source=FROM[1], destination=FROM[0], ports=PORTS[2:] + PORTS[:2])
    assert chosen(tirn, back) == chosen(tirn)
    tirn = create_indirect_tir(driver, td, rqtn, **rss(fields=3))
    assert chosen(tirn) == (rqns[0x277806FE % 4], 0x277806FE, CqeHashType.IPV4)


def test_xor8_of_a_channels_table(driver, td, rqns, chosen):
    """A channel's own TIR hashes nothing: its table has one RQ."""
    tirn = create_indirect_tir(
        driver, td, create_rqt(driver, rqns[3:]), rx_hash_fn=RxHashFn.INVERTED_XOR8
    )
    assert chosen(tirn) == (rqns[3], 0, 0)


def test_table_changes_under_traffic(driver, td, rqns, chosen):
    rqtn = create_rqt(driver, rqns[:1] * 4)
    tirn = create_indirect_tir(driver, td, rqtn, **rss())
    assert chosen(tirn)[0] == rqns[0]
    modify_rqt(driver, rqtn, rqns)
    assert chosen(tirn)[0] == rqns[0xA65524FA % 4]
    modify_rqt(driver, rqtn, rqns[1:2])
    assert chosen(tirn)[0] == rqns[1]


def test_another_hash(driver, function, td, rqns, chosen):
    """ethtool -X hkey, hfunc and -N rx-flow-hash."""
    tirn = create_indirect_tir(driver, td, create_rqt(driver, rqns), **rss())
    before = function.hca.ledger.accounts[Tir.kind]
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"hash": 1}, ctx=rss(fields=3))
    assert chosen(tirn)[1:] == (0x277806FE, CqeHashType.IPV4)
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"hash": 1}, ctx=rss(protocol="UDP"))
    udp = EthPacket(protocol=UDP, source=FROM[0], destination=FROM[1], ports=PORTS)
    assert chosen(tirn, udp)[1:] == (0xA65524FA, CqeHashType.IPV4 | CqeHashType.L4_UDP)
    xor = rss(rx_hash_fn=RxHashFn.INVERTED_XOR8, rx_hash_symmetric=0)
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"hash": 1}, ctx=xor)
    assert chosen(tirn, udp)[1] < 256
    assert function.hca.ledger.accounts[Tir.kind] == before
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"hash": 1}, ctx={})
    assert chosen(tirn) == (rqns[0], 0, 0)
    assert function.hca.ledger.accounts[Tir.kind] == before - Tir.HASHER_BYTES
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"hash": 1}, ctx=rss())
    assert chosen(tirn)[1] == 0xA65524FA


@pytest.mark.parametrize("unset", [{"rx_hash_fn": RxHashFn.NONE}, {"fields": 0}], ids=str)
def test_hash_of_nothing(driver, function, td, rqns, chosen, unset):
    """Neither a function without fields nor fields without a function make a hash, or cost one."""
    tirn = create_indirect_tir(driver, td, create_rqt(driver, rqns), **rss(**unset))
    assert chosen(tirn) == (rqns[0], 0, 0)
    assert function.hca.ledger.accounts[Tir.kind] == Tir.BASE_BYTES


def test_fields_are_changed_by_their_bits(driver, td, rqns, function):
    tirn = create_indirect_tir(driver, td, create_rqt(driver, rqns), **rss())
    every = rss(fields=3, self_lb_block=3)
    driver.must(Op.MODIFY_TIR, tirn=tirn, ctx=every)
    context = driver.must(Op.QUERY_TIR, tirn=tirn).tir_context
    assert context.rx_hash_field_selector_outer.selected_fields == 0xF
    assert context.self_lb_block == 0
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"self_lb_en": 1}, ctx=every)
    context = driver.must(Op.QUERY_TIR, tirn=tirn).tir_context
    assert context.rx_hash_field_selector_outer.selected_fields == 0xF
    assert context.self_lb_block == 3
    assert context.rx_hash_toeplitz_key == KEY
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"packet_merge": 1}, ctx={})


def test_loopback_bits_allow(driver, function, td, rqns):
    """Their name says the opposite of what they do."""
    source = function.hca.tds.need(td).add_sender()
    for bits in range(4):
        tirn = create_direct_tir(driver, td, rqns[0], self_lb_block=bits)
        tir = function.hca.tirs.get(tirn)
        assert tir.takes(source, is_multicast=False) == bool(bits & SelfLbBlock.BLOCK_UNICAST)
        assert tir.takes(source, is_multicast=True) == bool(bits & SelfLbBlock.BLOCK_MULTICAST)


@pytest.mark.parametrize("multicast", [False, True])
def test_send_queues_are_known_that_are_there_already(driver, function, td, rqns, multicast):
    """Hence mlx5e refreshes its TIRs when it has made new ones (Linux 66189961e986).

    And spead2's tests receive what another raw packet queue pair of the same context has sent.
    """
    domain = function.hca.tds.need(td)
    before = domain.add_sender()
    tirn = create_direct_tir(driver, td, rqns[0])
    tir, after = function.hca.tirs.get(tirn), domain.add_sender()

    def taken():
        return [tir.takes(source, is_multicast=multicast) for source in (before, after)]

    assert taken() == [False, True]
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"packet_merge": 1}, ctx={})
    assert taken() == [False, True]
    driver.must(Op.MODIFY_TIR, tirn=tirn, bitmask={"self_lb_en": 1}, ctx={})
    assert taken() == [False, False]
    other = function.hca.tds.need(alloc_td(driver)).add_sender()
    assert tir.takes(other, is_multicast=multicast)


def test_what_it_leads_to_stays(driver, td, rqns, refused, function):
    direct = create_direct_tir(driver, td, rqns[0])
    assert function.hca.rqs.get(rqns[0]).refs == 1
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_RQ, rqn=rqns[0])
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_TRANSPORT_DOMAIN, transport_domain=td)
    driver.must(Op.DESTROY_TIR, tirn=direct)
    assert function.hca.rqs.get(rqns[0]).refs == 0
    for op in (Op.QUERY_TIR, Op.MODIFY_TIR, Op.DESTROY_TIR):
        refused(missing(op), op, tirn=direct)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"disp_type": 2}, Status.BAD_PARAM_ERR),
        ({"rx_hash_fn": 3}, Status.BAD_PARAM_ERR),
        ({"rx_hash_field_selector_outer": {"selected_fields": 0x20}}, Status.BAD_PARAM_ERR),
        ({"rx_hash_field_selector_inner": {"selected_fields": 1 << 29}}, Status.BAD_PARAM_ERR),
        ({"tls_en": 1}, Status.BAD_PARAM_ERR),
        ({"packet_merge_mask": 4}, Status.BAD_PARAM_ERR),
        ({"transport_domain": 99}, Status.BAD_RES_ERR),
        ({"indirect_table": 99}, Status.BAD_RES_ERR),
        ({"disp_type": DispType.DIRECT, "inline_rqn": 99}, Status.BAD_RES_ERR),
    ],
)
def test_tirs_that_cannot_be(driver, td, rqns, refused, wrong, status):
    rqtn = create_rqt(driver, rqns)
    fields = {"disp_type": 1, "transport_domain": td, "indirect_table": rqtn} | rss() | wrong
    refused(status, Op.CREATE_TIR, ctx=fields)


@pytest.mark.parametrize(
    ("bitmask", "wrong"),
    [
        ({"packet_merge": 1}, {"packet_merge_mask": 0xB}),
        ({"hash": 1}, {"rx_hash_fn": 9}),
        (b"\0" * 7 + b"\x02", {}),
        (b"\x80" + bytes(7), {}),
    ],
)
def test_changes_that_cannot_be(driver, td, rqns, refused, bitmask, wrong):
    tirn = create_indirect_tir(driver, td, create_rqt(driver, rqns), **rss())
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_TIR, tirn=tirn, bitmask=bitmask, ctx=wrong)


def test_others_have_none_of_it(driver, td, rqns, refused):
    user = driver.must(Op.CREATE_UCTX).uid
    own = driver.must(Op.ALLOC_TRANSPORT_DOMAIN, uid=user).transport_domain
    for domain in (td, own):
        fields = {"transport_domain": domain, "inline_rqn": rqns[0]}
        refused(Status.BAD_RES_ERR, Op.CREATE_TIR, uid=user, ctx=fields)


def test_ports_of_the_wrong_protocol_are_not_hashed(driver, td, rqns, chosen):
    tirn = create_indirect_tir(driver, td, create_rqt(driver, rqns), **rss(protocol="UDP"))
    tcp = EthPacket(protocol=TCP, source=FROM[0], destination=FROM[1], ports=PORTS)
    assert chosen(tirn, tcp)[1:] == (0x277806FE, CqeHashType.IPV4)
