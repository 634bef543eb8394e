"""Packets in tunnels on their way in: matched, hashed and described by their inner headers."""

import pytest
from helpers.net.tunnels import ADDRESSES, KINDS, tunnelled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import set_field, to_table, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import TCP, UDP, EthPacket, ones_complement_sum
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_direct_tir,
    create_indirect_tir,
    create_rqt,
    rss,
)
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.world.cable import arrive
from layouts.enums.cqe import CqeChecked, CqeHeader
from layouts.enums.modify_header import ModifyField

GRE = 47
ALL_OK = CqeChecked.L2 | CqeChecked.L3 | CqeChecked.L4


def packet(version, protocol=TCP, **fields):
    return EthPacket(
        version=version, protocol=protocol, chain=protocol,
        **{**ADDRESSES[version], "payload": bytes(range(100)), **fields},
    )  # fmt: skip


class TestTables:
    """As mlx5e's inner TTC tables (core/lib/fs_ttc.c)."""

    @pytest.fixture
    def queues(self, node):
        return {name: ReceiveQueue(node) for name in ("tcp", "udp", "any", "outer")}

    @pytest.fixture
    def buffers(self, queues, driver):
        td = alloc_td(driver)
        tirs = {
            name: create_direct_tir(driver, td, rq.rqn, tunneled_offload_en=1)
            for name, rq in queues.items()
        }
        flows = Flows(driver)
        outer, inner = flows.table(0, log_size=2), flows.table(1, log_size=2)
        group = flows.group(inner, 0, 1, inner={"ip_version": 0xF, "ip_protocol": 0xFF})
        for index, (name, protocol) in enumerate((("tcp", TCP), ("udp", UDP))):
            wanted = {"ip_version": 4, "ip_protocol": protocol}
            flows.entry(inner, index, group, to_tir(tirs[name]), inner=wanted)
        flows.entry(inner, 2, flows.group(inner, 2, 2), to_tir(tirs["any"]))
        group = flows.group(outer, 0, 0, ip_version=0xF, ip_protocol=0xFF)
        flows.entry(outer, 0, group, to_table(inner), ip_version=4, ip_protocol=GRE)
        flows.entry(outer, 1, flows.group(outer, 1, 1), to_tir(tirs["outer"]))
        flows.set_root(outer)
        return {name: Buffers(rq) for name, rq in queues.items()}

    def arrived(self, node, buffers, frame):
        arrive(node.hca, Frame(frame))
        node.settle()
        found = {name: one.drain() for name, one in buffers.items()}
        ((name, ((entry, data),)),) = [(name, one) for name, one in found.items() if one]
        assert data == frame
        return name, entry

    @pytest.mark.parametrize(
        ("inner", "queue"),
        [
            (packet(4), "tcp"),
            (packet(4, UDP), "udp"),
            (packet(6), "any"),
            (packet(4, TCP, fragment=0x2000), "tcp"),
        ],
    )
    @pytest.mark.parametrize("kind", ["gre", "gre_key", "gre_ethernet"])
    def test_ways(self, node, buffers, inner, queue, kind):
        frame, _ = tunnelled(kind, 4, inner)
        assert self.arrived(node, buffers, frame)[0] == queue

    def test_another_tunnel(self, node, buffers):
        assert self.arrived(node, buffers, tunnelled("vxlan", 4, packet(4))[0])[0] == "outer"

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(
        st.lists(
            st.tuples(st.sampled_from([4, 6]), st.sampled_from([TCP, UDP]), st.integers(0, 3)),
            max_size=20,
        )
    )
    def test_decisions_that_are_kept(self, node, buffers, packets):
        """A packet goes its own way, whatever went before with the same outer headers."""
        for version, protocol, port in packets:
            inner = packet(version, protocol, ports=bytes((0, port, 0, 80)))
            wanted = "any" if version == 6 else "tcp" if protocol == TCP else "udp"
            assert self.arrived(node, buffers, tunnelled("gre", 4, inner)[0])[0] == wanted
            buffers[wanted].post()


class TestHash:
    def hashed(self, node, hca, driver, inside, frame, version=4, *changes):
        queues = [ReceiveQueue(node) for _ in range(4)]
        context = rss(version)
        if inside:
            selector = context.pop("rx_hash_field_selector_outer")
            context["rx_hash_field_selector_inner"] = selector
        rqtn = create_rqt(driver, [rq.rqn for rq in queues])
        tirn = create_indirect_tir(driver, alloc_td(driver), rqtn, **context)
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        modify = {"modify": flows.context(*changes)} if changes else {}
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn), **modify)
        flows.set_root(table)
        buffers = [Buffers(rq) for rq in queues]
        arrive(hca, Frame(frame))
        ((number, ((entry, _),)),) = [
            (number, found) for number, one in enumerate(buffers) if (found := one.drain())
        ]
        return number, entry.rss_hash_result, entry.rss_hash_type

    @pytest.mark.parametrize("kind", ["gre", "vxlan", "ip"])
    @pytest.mark.parametrize("version", [4, 6])
    def test_of_the_inner_packet(self, node, hca, driver, kind, version):
        inner = packet(version)
        frame, _ = tunnelled(kind, 4, inner)
        alone = self.hashed(node, hca, driver, False, inner.frame(), version)
        assert self.hashed(node, hca, driver, True, frame, version) == alone
        assert alone[1]

    @pytest.mark.parametrize("kind", ["geneve_options", "vxlan", "ip"])
    @pytest.mark.parametrize("version", [4, 6])
    def test_of_a_packet_that_is_changed(self, node, hca, driver, kind, version):
        frame, _ = tunnelled(kind, 6, packet(version))
        change = set_field(ModifyField.OUT_DMAC_15_0, 7, 16)
        same = self.hashed(node, hca, driver, True, frame, version)
        assert self.hashed(node, hca, driver, True, frame, version, change) == same
        assert same[1]

    def test_without_a_tunnel(self, node, hca, driver):
        assert self.hashed(node, hca, driver, True, packet(4).frame()) == (0, 0, 0)


class TestCompletion:
    @pytest.fixture
    def buffers(self, node, driver):
        rq = ReceiveQueue(node, vsd=0)
        tirn = create_direct_tir(driver, alloc_td(driver), rq.rqn, tunneled_offload_en=1)
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
        flows.set_root(table)
        return Buffers(rq)

    def entry(self, hca, buffers, frame):
        arrive(hca, Frame(frame))
        ((entry, data),) = buffers.drain()
        buffers.post()
        assert entry.check_sum % 0xFFFF == ones_complement_sum(data[14:]) % 0xFFFF
        return entry

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("outer", [4, 6])
    @pytest.mark.parametrize("version", [4, 6])
    def test_right_checksums(self, hca, buffers, kind, outer, version):
        entry = self.entry(hca, buffers, tunnelled(kind, outer, packet(version, UDP))[0])
        assert entry.tls_outer_l3_tunneled == (1 if outer == 4 else 3)
        kinds = CqeHeader.IPV4 if version == 4 else CqeHeader.IPV6
        assert entry.l4_l3_hdr_type == kinds | CqeHeader.UDP
        # UDP over IPv6 wants a checksum, which tunnels may leave out.
        has_outer = kind.startswith(("vxlan", "geneve")) and outer == 6
        assert entry.hds_ip_ext == (CqeChecked.L2 | CqeChecked.L3 if has_outer else ALL_OK)

    @pytest.mark.parametrize("at", ["inner_ip", "inner_l4", "outer_ip"])
    def test_wrong_checksums(self, hca, buffers, at):
        frame, inner_l3 = tunnelled("gre", 4, packet(4))
        place = {"inner_ip": inner_l3 + 10, "inner_l4": inner_l3 + 36, "outer_ip": 24}[at]
        data = bytearray(frame)
        data[place] ^= 0xFF
        entry = self.entry(hca, buffers, bytes(data))
        assert entry.hds_ip_ext != ALL_OK
        assert bool(entry.hds_ip_ext & CqeChecked.L4) == (at != "inner_l4")

    def test_a_tag_is_told_as_well(self, hca, buffers):
        frame, _ = tunnelled("vxlan", 4, packet(4))
        entry = self.entry(hca, buffers, frame[:12] + b"\x81\x00\x00\x07" + frame[12:])
        assert entry.l4_l3_hdr_type & CqeHeader.VLAN_STRIPPED
        assert (entry.vlan_info, entry.tls_outer_l3_tunneled) == (7, 1)

    def test_without_a_tunnel(self, hca, buffers):
        entry = self.entry(hca, buffers, packet(4, UDP).frame())
        assert (entry.tls_outer_l3_tunneled, entry.hds_ip_ext) == (0, ALL_OK)
