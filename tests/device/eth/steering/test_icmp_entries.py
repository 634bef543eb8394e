"""Entries for packets of ICMP and of ICMPv6, as tc flower and bridges' MLD snooping have them."""

import pytest

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import entry_fields, group_fields, to_tir
from emu.driver.ethernet.frames import TCP, EthPacket
from emu.driver.ethernet.interfaces import create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.world.cable import arrive
from layouts.enums.caps import FlexProtocol
from layouts.enums.cmd import Op, Status
from layouts.steering.flow_match import fte_match_param

OUTER, MISC_3 = 1 << 0, 1 << 4
ICMP, ICMPV6 = 1, 58
QUERY = 130
"""MLD's query, ICMPV6_MGM_QUERY."""
IPV6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


def match(version=0, **misc_3):
    param = fte_match_param.new()
    param.outer_headers.ip_version = version
    for name, value in misc_3.items():
        setattr(param.misc_parameters_3, name, value)
    return bytes(param)


def message(kind, code=0):
    """A message of ICMP, then one of ICMPv6."""
    payload = bytes((kind, code)) + bytes(10)
    return (
        EthPacket(protocol=ICMP, payload=payload),
        EthPacket(**IPV6, protocol=ICMPV6, chain=ICMPV6, payload=payload),
    )


@pytest.fixture
def entry(flows, driver, tir):
    """Makes a root of one entry, whose packets come to the TIR."""

    def make(mask, value):
        table = flows.table(1)
        both = OUTER | MISC_3
        fields = group_fields(table, 0, 3, enable=both, match_criteria=mask)
        group = driver.must(Op.CREATE_FLOW_GROUP, **fields).group_id
        driver.must(
            Op.SET_FLOW_TABLE_ENTRY, **entry_fields(table, 0, group, to_tir(tir), value=value)
        )
        flows.set_root(table)

    return make


@pytest.fixture
def rq(node):
    return ReceiveQueue(node)


@pytest.fixture
def tir(driver, td, rq):
    return create_direct_tir(driver, td, rq.rqn)


@pytest.fixture
def comes(hca, rq):
    """Whether a packet comes to the TIR's queue."""
    buffers = Buffers(rq)

    def find(packet):
        arrive(hca, Frame(packet.frame()))
        found = buffers.drain()
        for _ in found:
            buffers.post()
        return bool(found)

    return find


def test_the_driver_learns_that_both_are_matched(hca):
    both = FlexProtocol.ICMP | FlexProtocol.ICMPV6
    assert hca.caps.general.flex_parser_protocols & both == both


def test_snooping_for_mld(entry, comes):
    """core/esw/bridge_mcast.c: mlx5_esw_bridge_ingress_mld_fh_create."""
    entry(match(0xF, icmpv6_type=0xFF), match(6, icmpv6_type=QUERY))
    icmp, icmpv6 = message(QUERY)
    assert comes(icmpv6)
    assert not comes(icmp)
    assert not comes(message(QUERY + 1)[1])
    tcp = EthPacket(**IPV6, protocol=TCP, chain=TCP, sequence=QUERY << 24)
    assert not comes(tcp)


def test_rules_of_flower(entry, comes):
    """core/en_tc.c: `type 8 code 0`, and of those with an identifier."""
    mask = match(0xF, icmp_type=0xFF, icmp_code=0xFF, icmp_header_data=0xFFFFFFFF)
    entry(mask, match(4, icmp_type=8, icmp_header_data=0))
    echo, _ = message(8)
    assert comes(echo)
    assert not comes(message(8, code=1)[0])
    assert not comes(EthPacket(protocol=ICMP, payload=b"\x08\0\0\0\0\1\0\0"))


def test_a_message_inside_a_tunnel_is_not_matched(flows, driver, refused):
    """There are no such fields: the group is refused."""
    mask = match(0, inner_tcp_seq_num=1)
    fields = group_fields(flows.table(1), 0, 3, enable=MISC_3, match_criteria=mask)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_FLOW_GROUP, **fields)
