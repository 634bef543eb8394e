"""Flow steering: what is refused, what drivers rely on, and a machine against a plain model."""

from __future__ import annotations

from itertools import product

import pytest
from helpers.models.flow_model import Entry, Table, fields_of, outcome
from helpers.models.steering import Name, Steering, target_of, to
from helpers.pure import pure_only
from helpers.random.examples import examples
from helpers.random.packets import packets
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from emu.device.engine.eth.steering.criteria import Criteria
from emu.device.engine.eth.steering.criteria import fields_of as fields_of_param
from emu.device.engine.eth.steering.domain import (
    MAX_DELIVERIES,
    MAX_FIELDS,
    MAX_GROUPS,
    MAX_TABLES,
)
from emu.device.engine.eth.steering.fields import FIELDS, cvlan_tag_alone
from emu.device.engine.eth.steering.rewrite import context_of
from emu.device.errors import CmdError
from emu.device.objects.eth.flow.action import FteAction, FteVerdict
from emu.device.objects.eth.flow.domain import CACHED, CACHED_ITEMS
from emu.device.objects.eth.flow.table import FlowTable, Miss
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.port.eth.headers import ICMP, ICMPV6, parse
from emu.device.rounds.costs import LOG_CHANGES_PER_STEP, STEPS_PER_REWRITE
from emu.driver.ethernet.flow_fields import add_to_field
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from layouts.enums.flow_table import FlowTableType
from layouts.enums.modify_header import ModifyField
from layouts.steering.flow_match import fte_match_param

pure_only("its destinations are objects of a class of its own")

DROP = FteAction(FteVerdict.DROP)
ALERT = bytes.fromhex("3a00 0502 0000 0100")
"""A hop-by-hop header with IPv6's router alert, in front of ICMPv6."""
IPV6 = {"version": 6, "source": bytes(15) + b"\1", "destination": bytes(15) + b"\2"}


def outer(**masks):
    return {f"outer_headers.{name}": mask for name, mask in masks.items()}


def decide(steering, packet):
    frame = packet.frame()
    return steering.decide(parse(frame), len(frame))


@pytest.fixture
def steering():
    return Steering()


class TestFields:
    @given(packets())
    def test_as_the_packet_was_built(self, packet):
        fields, headers = fields_of(packet), parse(packet.frame())
        for name, field in FIELDS.items():
            part, _, name_there = name.partition(".")
            if part == "outer_headers":
                assert field.read(headers) == fields.get(name_there), name

    @given(
        st.binary(min_size=14, max_size=100) | packets().map(EthPacket.frame),
        st.integers(14, 100),
    )
    def test_anything(self, frame, size):
        """Every field of every frame fits its place in fte_match_param."""
        headers = parse(frame[:size])
        for name, field in FIELDS.items():
            part, _, name_there = name.partition(".")
            view = getattr(fte_match_param.new(), part)
            width = next(f.width for f in type(view).fields if f.name == name_there)
            value = field.read(headers)
            assert value is None or 0 <= value < 1 << width, name
            if field.part:
                hash(field.part(headers))

    def test_every_one_has_a_place(self):
        param = fte_match_param.new()
        for name in FIELDS:
            part, _, field = name.partition(".")
            assert hasattr(getattr(param, part), field)

    def misc(self, packet):
        headers = parse(packet.frame())
        found = {name: field.read(headers) for name, field in FIELDS.items() if "misc" in name}
        return {name.partition(".")[2]: value for name, value in found.items() if value is not None}

    def test_second_tag(self):
        found = self.misc(EthPacket(tags=((0x88A8, 0x1001), (0x8100, 0xF064))))
        assert found["outer_second_vid"] == 0x64
        assert (found["outer_second_prio"], found["outer_second_cfi"]) == (7, 1)
        assert (found["outer_second_cvlan_tag"], found["outer_second_svlan_tag"]) == (1, 0)

    def test_vxlan(self):
        ports = bytes(2) + (4789).to_bytes(2, "big")
        vxlan = b"\x08\0\0\0\x12\x34\x56\0"
        assert (
            self.misc(EthPacket(protocol=UDP, ports=ports, payload=vxlan))["vxlan_vni"] == 0x123456
        )
        for payload in (vxlan[:7], b"\0" + vxlan[1:]):
            assert "vxlan_vni" not in self.misc(
                EthPacket(protocol=UDP, ports=ports, payload=payload)
            )

    def test_roce(self):
        ports = bytes(2) + (4791).to_bytes(2, "big")
        bth = bytes([0x64]) + bytes(4) + b"\0\x01\x02" + bytes(4)
        found = self.misc(EthPacket(protocol=UDP, ports=ports, payload=bth))
        assert (found["bth_opcode"], found["bth_dst_qp"]) == (0x64, 0x102)
        short = EthPacket(protocol=UDP, ports=ports, payload=bth[:11], padding=bytes(8))
        assert "bth_opcode" not in self.misc(short)

    def test_gre(self):
        gre = b"\xb0\x00\x65\x58" + bytes(4) + b"\1\2\3\4"
        found = self.misc(EthPacket(protocol=47, payload=gre))
        assert found["gre_protocol"] == 0x6558
        assert (found["gre_c_present"], found["gre_k_present"], found["gre_s_present"]) == (1, 1, 1)
        assert found["gre_key"] == 0x01020304
        assert "gre_key" not in self.misc(EthPacket(protocol=47, payload=gre[:8]))
        plain = self.misc(EthPacket(protocol=47, payload=b"\x20\0\x08\0\5\6\7\x08"))
        assert plain["gre_key"] == 0x05060708

    def test_gre_without_a_key(self):
        found = self.misc(EthPacket(protocol=47, payload=b"\0\0\x08\0\5\6\7\x08"))
        assert found["gre_k_present"] == 0
        assert "gre_key" not in found

    @pytest.mark.parametrize(
        ("name", "packet"),
        [
            ("icmp", {"protocol": ICMP}),
            ("icmpv6", {**IPV6, "protocol": ICMPV6, "chain": ICMPV6}),
            # As all of MLD's: a router alert in front (RFC 3810 5).
            ("icmpv6", {**IPV6, "protocol": ICMPV6, "chain": 0, "extra": ALERT}),
        ],
    )
    def test_icmp(self, name, packet):
        found = self.misc(EthPacket(**packet, payload=bytes.fromhex("8f01 ffff 12345678")))
        found = {name: value for name, value in found.items() if name.startswith("icmp")}
        assert found == {
            f"{name}_type": 143, f"{name}_code": 1, f"{name}_header_data": 0x12345678
        }  # fmt: skip
        short = self.misc(EthPacket(**packet, payload=bytes(7)))
        assert not [name for name in short if name.startswith("icmp")]

    @pytest.mark.parametrize("ethertype", [b"\x08\x06", b"\x88\xcc"])
    def test_a_frame_without_ip(self, ethertype):
        """It has none of these fields: an entry that asks for 0 does not match it."""
        headers = parse(bytes(range(12)) + ethertype + bytes(46))
        for name in ("ip_dscp", "ip_ecn", "src_ipv4_src_ipv6", "dst_ipv4_dst_ipv6"):
            assert FIELDS[f"outer_headers.{name}"].read(headers) is None, name
        assert FIELDS["misc_parameters.outer_ipv6_flow_label"].read(headers) is None

    @pytest.mark.parametrize(
        "packet",
        [EthPacket(), EthPacket(protocol=50, payload=bytes(range(12)), fragment=0x2000)],
    )
    def test_no_flow_label_and_no_spi(self, packet):
        found = self.misc(packet)
        assert "outer_ipv6_flow_label" not in found
        assert "outer_esp_spi" not in found

    @pytest.mark.parametrize("protocol", [TCP, UDP])
    def test_a_fragment_has_no_ports_and_no_flags(self, protocol):
        headers = parse(EthPacket(protocol=protocol, fragment=0x2001).frame())
        assert headers.protocol == protocol
        for name in ("sport", "dport"):
            field = FIELDS[f"outer_headers.{'tcp' if protocol == TCP else 'udp'}_{name}"]
            assert field.read(headers) is None
        assert FIELDS["outer_headers.tcp_flags"].read(headers) is None

    def test_a_service_tag_that_is_cut_off_is_none(self):
        headers = parse(bytes(12) + b"\x88\xa8\0")
        assert (headers.tags, cvlan_tag_alone(headers)) == (0, 0)
        assert cvlan_tag_alone(parse(EthPacket(tags=((0x88A8, 5),)).frame())) is None

    def test_flow_label_and_spi(self):
        frame = bytearray(EthPacket(**IPV6, protocol=50, chain=50, payload=b"\0\0\1\2" * 3).frame())
        frame[15:18] = b"\x0a\xbc\xde"
        headers = parse(bytes(frame))
        assert FIELDS["misc_parameters.outer_ipv6_flow_label"].read(headers) == 0xABCDE
        assert FIELDS["misc_parameters.outer_esp_spi"].read(headers) == 0x102


class TestCriteria:
    def test_from_a_command(self):
        param = fte_match_param.new()
        param.outer_headers.tcp_dport = 0xFFFF
        param.outer_headers.src_ipv4_src_ipv6 = bytes(12) + b"\xff\xff\xff\0"
        param.misc_parameters.gre_key = b"\0\0\0\1"
        want = outer(src_ipv4_src_ipv6=0xFFFFFF00, tcp_dport=0xFFFF)
        assert fields_of_param(param, 1) == want
        assert fields_of_param(param, 3) == {**want, "misc_parameters.gre_key": 1}
        assert fields_of_param(param, 0) == {}

    def test_part_that_there_is_not(self):
        with pytest.raises(CmdError, match="unknown bits"):
            fields_of_param(fte_match_param.new(), 0x80)

    def test_reserved_bits(self):
        param = fte_match_param.new()
        param.buf[0x40 + 0x35] = 1
        assert fields_of_param(param, 1) == {}
        with pytest.raises(CmdError, match="reserved bits"):
            fields_of_param(param, 2)

    @pytest.mark.parametrize("name", ["inner_headers.first_vid", "misc_parameters.source_port"])
    def test_field_that_packets_do_not_have(self, name):
        with pytest.raises(CmdError, match=name):
            Criteria({name: 1})
        assert Criteria({name: 0}).masks == {}


class TestRefusals:
    @pytest.fixture
    def table(self, steering):
        return steering.create_table(5, 4, Miss.DEFAULT)

    @pytest.fixture
    def group(self, steering, table):
        return steering.create_group(table, 4, 7, outer(ethertype=0xFFFF))

    @pytest.mark.parametrize("level", [5, 6, 255])
    def test_miss_that_does_not_lead_up(self, steering, table, level):
        with pytest.raises(CmdError, match="higher level"):
            steering.create_table(level, 0, table)
        lower = steering.create_table(4, 0, Miss.DEFAULT)
        with pytest.raises(CmdError, match="higher level"):
            steering.modify_miss(table, lower)
        assert table.miss is Miss.DEFAULT

    @pytest.mark.parametrize(("first", "last"), [(0, 16), (5, 4), (-1, 3), (16, 16)])
    def test_group_outside_its_table(self, steering, table, first, last):
        with pytest.raises(CmdError, match="outside its table"):
            steering.create_group(table, first, last, {})

    @pytest.mark.parametrize(("first", "last"), [(4, 7), (0, 4), (7, 15), (5, 6), (0, 15)])
    def test_groups_that_overlap(self, steering, table, group, first, last):
        with pytest.raises(CmdError, match="overlap"):
            steering.create_group(table, first, last, {})
        assert table.groups == [group]

    def test_groups_side_by_side(self, steering, table, group):
        steering.create_group(table, 8, 15, {})
        steering.create_group(table, 0, 3, {})
        assert [found.first for found in table.groups] == [0, 4, 8]

    @pytest.mark.parametrize("index", [3, 8])
    def test_entry_outside_its_group(self, steering, group, index):
        with pytest.raises(CmdError, match="outside its group"):
            steering.create_entry(group, index, {}, DROP)

    def test_two_entries_with_one_index(self, steering, group):
        steering.create_entry(group, 4, {}, DROP)
        with pytest.raises(CmdError, match="at this index"):
            steering.create_entry(group, 4, {}, to("tir"))

    @pytest.mark.parametrize(
        ("action", "why"),
        [
            (FteAction(FteVerdict.FORWARD), "must have destinations"),
            (FteAction(FteVerdict.DROP, (Name("tir"),)), "must have destinations"),
            (FteAction(FteVerdict.ALLOW, (Name("tir"),)), "must have destinations"),
        ],
    )
    def test_actions(self, steering, group, action, why):
        with pytest.raises(CmdError, match=why):
            steering.create_entry(group, 4, {}, action)
        entry = steering.create_entry(group, 4, {}, DROP)
        with pytest.raises(CmdError, match=why):
            steering.modify_entry(entry, action)
        assert entry.action is DROP

    def test_entry_that_does_not_lead_up(self, steering, table, group):
        counter = FlowCounter()
        with pytest.raises(CmdError, match="higher level"):
            steering.create_entry(group, 4, {}, to("tir", table, counters=(counter,)))
        assert (table.refs, counter.refs, group.entries) == (1, 0, {})  # the group

    def test_what_is_in_use_stays(self, steering, table, group):
        above = steering.create_table(9, 0, Miss.DEFAULT)
        steering.modify_miss(table, above)
        counter = FlowCounter()
        entry = steering.create_entry(group, 4, {}, to(above, counters=(counter,)))
        assert (above.refs, counter.refs) == (2, 1)
        with pytest.raises(CmdError, match="group is still in use"):
            steering.destroy_group(group)
        steering.delete_entry(entry)
        assert (above.refs, counter.refs) == (1, 0)
        with pytest.raises(CmdError, match="table is still in use"):
            steering.destroy_table(table)
        with pytest.raises(CmdError, match="table is still in use"):
            steering.destroy_table(above)
        steering.destroy_group(group)
        steering.destroy_table(table)
        steering.destroy_table(above)

    def test_root_may_go(self, steering, table):
        """The driver destroys its last table while it is the root (fs_core.c)."""
        steering.set_root(table)
        steering.destroy_table(table)
        assert steering.root is None
        assert decide(steering, EthPacket()).missed


class TestWhatDriversRelyOn:
    def stock(self, steering, *, with_type):
        """mlx5e's own tables: VLAN, then MAC addresses, then traffic types."""
        anchor = steering.create_table(66, 0, Miss.DEFAULT)
        types = steering.create_table(57, 7, anchor)
        kind = "ip_version" if with_type else "ethertype"
        mask = 0xF if with_type else 0xFFFF
        group = steering.create_group(types, 0, 13, outer(**{kind: mask}, ip_protocol=0xFF))
        network = {4: 4, 6: 6} if with_type else {4: 0x800, 6: 0x86DD}
        for index, (version, protocol) in enumerate(product((4, 6), (TCP, UDP))):
            values = outer(**{kind: network[version]}, ip_protocol=protocol)
            steering.create_entry(group, index, values, to(f"{version}/{protocol}"))
        group = steering.create_group(types, 14, 15, outer(**{kind: mask}))
        for index, version in ((14, 4), (15, 6)):
            values = outer(**{kind: network[version]})
            steering.create_entry(group, index, values, to(str(version)))
        any_group = steering.create_group(types, 16, 16, {})
        steering.create_entry(any_group, 16, {}, to("any"))
        addresses = steering.create_table(56, 16, anchor)
        mac = outer(dmac_47_16=0xFFFFFFFF, dmac_15_0=0xFFFF)
        group = steering.create_group(addresses, 0, 32767, mac)
        own = outer(dmac_47_16=int.from_bytes(MACS[:4], "big"),
                    dmac_15_0=int.from_bytes(MACS[4:6], "big"))  # fmt: skip
        steering.create_entry(group, 0, own, to(types))
        tags = steering.create_table(55, 16, anchor)
        vid = steering.create_group(tags, 0, 4095, outer(cvlan_tag=1, first_vid=0xFFF))
        svid = steering.create_group(tags, 4096, 8191, outer(svlan_tag=1, first_vid=0xFFF))
        untagged = steering.create_group(tags, 8192, 8193, outer(cvlan_tag=1))
        steering.create_entry(vid, 100, outer(cvlan_tag=1, first_vid=100), to(addresses))
        steering.create_entry(svid, 4096, outer(svlan_tag=1, first_vid=7), to(addresses))
        steering.create_entry(untagged, 8192, outer(), to(addresses))
        steering.set_root(tags)
        return types, addresses, tags

    @pytest.mark.parametrize("with_type", [True, False])
    def test_stock_tables(self, steering, with_type):
        self.stock(steering, with_type=with_type)
        udp6 = EthPacket(**IPV6, protocol=UDP, chain=UDP)
        for packet, target in [
            (EthPacket(), "4/6"),
            (EthPacket(protocol=UDP), "4/17"),
            (udp6, "6/17"),
            (EthPacket(protocol=1), "4"),
            (EthPacket(fragment=0x2000), "4/6"),
            (EthPacket(tags=((0x8100, 0x2064),)), "4/6"),
            (EthPacket(tags=((0x88A8, 7),)), "4/6"),
        ]:
            for _ in range(2):
                assert decide(steering, packet).deliveries == ((target, 0),)
        for packet in (EthPacket(tags=((0x8100, 101),)), EthPacket(tags=((0x88A8, 100),))):
            decision = decide(steering, packet)
            assert (decision.deliveries, decision.missed) == ((), True)
        arp = MACS + b"\x08\x06" + bytes(46)
        assert steering.decide(parse(arp), 60).deliveries == (("any", 0),)
        other = b"\x02" + bytes(5) + arp[6:]
        assert steering.decide(parse(other), 60).missed

    def test_untagged_means_no_tag_of_any_kind(self, steering):
        table = steering.create_table(1, 0, Miss.DEFAULT)
        group = steering.create_group(table, 0, 0, outer(cvlan_tag=1))
        steering.create_entry(group, 0, {}, to("untagged"))
        steering.set_root(table)
        assert decide(steering, EthPacket()).deliveries
        for tpid in (0x8100, 0x88A8):
            assert decide(steering, EthPacket(tags=((tpid, 1),))).missed

    def test_lowest_index_wins(self, steering):
        table = steering.create_table(1, 4, Miss.DEFAULT)
        late = steering.create_group(table, 8, 11, outer(ip_protocol=0xFF))
        early = steering.create_group(table, 0, 3, outer(ethertype=0xFFFF))
        steering.set_root(table)
        values = outer(ip_protocol=TCP, ethertype=0x800)
        entries = [
            steering.create_entry(group, index, values, to(index))
            for group, index in ((late, 10), (late, 9), (early, 3), (early, 1), (early, 2))
        ]
        for index in (1, 2, 3, 9, 10):
            assert decide(steering, EthPacket()).deliveries == ((index, 0),)
            steering.delete_entry(next(entry for entry in entries if entry.index == index))
        assert decide(steering, EthPacket()).missed

    def test_changes_are_seen_at_once(self, steering):
        types, _, tags = self.stock(steering, with_type=True)
        assert decide(steering, EthPacket()).deliveries == (("4/6", 0),)
        entry = types.entry_at(0)
        steering.modify_entry(entry, to("flow", tag=77))
        assert decide(steering, EthPacket()).deliveries == (("flow", 77),)
        steering.modify_entry(entry, DROP)
        decision = decide(steering, EthPacket())
        assert (decision.deliveries, decision.missed) == ((), False)
        steering.delete_entry(entry)
        assert decide(steering, EthPacket()).deliveries == (("4", 0),)
        first = steering.create_table(10, 0, tags)
        steering.set_root(first)
        assert decide(steering, EthPacket()).deliveries == (("4", 0),)
        group = steering.create_group(first, 0, 0, outer(tcp_dport=0xFFFF))
        steering.create_entry(group, 0, outer(tcp_dport=80), to("rule"))
        assert decide(steering, EthPacket()).deliveries == (("rule", 0),)
        assert decide(steering, EthPacket(ports=bytes(4))).deliveries == (("4", 0),)
        steering.modify_miss(first, Miss.SWITCH_DOMAIN)
        assert decide(steering, EthPacket(ports=bytes(4))).switched

    def test_counters(self, steering):
        counter, table = FlowCounter(), steering.create_table(1, 0, Miss.DEFAULT)
        group = steering.create_group(table, 0, 0, {})
        steering.create_entry(group, 0, {}, FteAction(FteVerdict.DROP, counters=(counter,)))
        steering.set_root(table)
        for _ in range(3):
            assert not decide(steering, EthPacket()).missed
        assert (counter.packets, counter.octets) == (3, 3 * len(EthPacket().frame()))

    def test_several_destinations(self, steering):
        second = steering.create_table(2, 0, Miss.DEFAULT)
        group = steering.create_group(second, 0, 0, {})
        steering.create_entry(group, 0, {}, to("b", "c", tag=2))
        first = steering.create_table(1, 0, Miss.DEFAULT)
        group = steering.create_group(first, 0, 0, {})
        steering.create_entry(group, 0, {}, to("a", second, tag=1))
        steering.set_root(first)
        assert set(decide(steering, EthPacket()).deliveries) == {("a", 1), ("b", 2), ("c", 2)}

    def test_a_packets_way_ends(self, steering):
        """Four destinations in each of 30 levels would be 4**30 ways."""
        above = steering.create_table(100, 0, Miss.DEFAULT)
        for level in range(99, 70, -1):
            table = steering.create_table(level, 0, Miss.DEFAULT)
            group = steering.create_group(table, 0, 0, {})
            steering.create_entry(group, 0, {}, to(above, above, above, "tir"))
            above = table
        steering.set_root(above)
        decision = decide(steering, EthPacket())
        assert decision.missed
        assert len(decision.deliveries) <= MAX_DELIVERIES

    def test_groups_that_a_packet_meets_are_bounded(self, steering):
        """A table may have as many groups as indices; a packet is not compared with all."""
        table = steering.create_table(1, 13, Miss.DEFAULT)
        group = steering.create_group(table, MAX_GROUPS, MAX_GROUPS, {})
        steering.create_entry(group, MAX_GROUPS, {}, to("far"))
        for index in range(MAX_GROUPS):
            steering.create_group(table, index, index, {})
        steering.set_root(table)
        decision = decide(steering, EthPacket())
        assert (decision.deliveries, decision.missed) == ((), True)
        steering.destroy_group(table.groups[0])
        assert decide(steering, EthPacket()).deliveries == (("far", 0),)

    def test_fields_that_are_read_of_a_packet_are_bounded(self, steering):
        """Each group reads all that it matches, before it finds no entry."""
        names = fields_of(EthPacket())
        table = steering.create_table(1, 13, Miss.DEFAULT)
        first = steering.create_group(table, 0, 0, outer(**dict.fromkeys(names, 1)))
        count = -(-MAX_FIELDS // first.criteria.cost)
        assert count < MAX_GROUPS
        for index in range(1, count):
            steering.create_group(table, index, index, outer(**dict.fromkeys(names, 1)))
        group = steering.create_group(table, count, count, {})
        steering.create_entry(group, count, {}, to("far"))
        steering.set_root(table)
        decision = decide(steering, EthPacket())
        assert (decision.deliveries, decision.missed) == ((), True)
        steering.destroy_group(first)
        assert decide(steering, EthPacket()).deliveries == (("far", 0),)

    def chained(self, steering, count, steps=()):
        """What a packet is charged for a chain of tables; entries with ``steps`` change it."""
        following = Miss.DEFAULT
        for level in range(count, 0, -1):
            table = steering.create_table(level, 0, following)
            if steps:
                group = steering.create_group(table, 0, 0, {})
                targets = to("far" if following is Miss.DEFAULT else following).destinations
                action = FteAction(FteVerdict.FORWARD, targets, steps=steps)
                steering.create_entry(group, 0, {}, action)
            following = table
        steering.set_root(following)
        before = steering.domain.steps
        decide(steering, EthPacket())
        return steering.domain.steps - before

    def test_tables_without_groups_are_charged(self, steering):
        assert self.chained(steering, MAX_TABLES - 1) >= MAX_TABLES - 1 >> 1

    @pytest.mark.parametrize("changes", [1, 4])
    def test_changes_on_a_packets_path_are_charged_as_those_at_its_end(self, steering, changes):
        context = context_of(
            FlowTableType.NIC_RX, [add_to_field(ModifyField.OUT_IP_TTL, 1)] * changes
        )
        each = STEPS_PER_REWRITE + (changes >> LOG_CHANGES_PER_STEP)
        assert self.chained(steering, 200, (context,)) >= 200 * each

    def test_room_of_kept_decisions_is_bounded(self, steering):
        table = steering.create_table(1, 0, Miss.DEFAULT)
        steering.create_entry(steering.create_group(table, 0, 0, {}), 0, {}, to(*"abc" * 80))
        steering.set_root(table)
        for vid in range(CACHED_ITEMS // 240 + 5):
            decide(steering, EthPacket(tags=((0x8100, vid),)))
        assert sum(len(found.deliveries) for found in steering.domain.decisions.values()) == 5 * 240

    def test_decisions_that_are_kept_are_bounded(self, steering):
        self.stock(steering, with_type=True)
        for vid in range(CACHED + 5):
            decide(steering, EthPacket(tags=((0x8100, vid),)))
        assert len(steering.domain.decisions) <= CACHED


MASKS = st.fixed_dictionaries(
    {},
    optional={
        "ethertype": st.sampled_from((0xFFFF, 0xFF)),
        "ip_version": st.just(0xF),
        "ip_protocol": st.just(0xFF),
        "cvlan_tag": st.just(1),
        "svlan_tag": st.just(1),
        "first_vid": st.sampled_from((0xFFF, 1)),
        "frag": st.just(1),
        "ip_dscp": st.just(0x3F),
        "l4_type": st.just(3),
        "src_ipv4_src_ipv6": st.sampled_from(((1 << 128) - 1, 3)),
        "tcp_dport": st.just(0xFFFF),
        "udp_dport": st.just(0xFFFF),
        "tcp_flags": st.just(2),
    },
)

POOL = [
    EthPacket(**kind, protocol=protocol, chain=protocol, tags=tags, ports=ports, tos=0x20, flags=2)
    for kind, protocol, tags, ports in product(
        ({}, IPV6, {"source": b"\x0a\0\0\3"}),
        (TCP, UDP),
        ((), ((0x8100, 1),), ((0x88A8, 2),)),
        (b"\0\1\0\2", b"\0\1\0\3"),
    )
]
POOL += [EthPacket(), EthPacket(fragment=0x2000), EthPacket(protocol=1)]
HEADERS = [parse(packet.frame()) for packet in POOL]
VERDICTS = st.sampled_from(
    (FteVerdict.FORWARD, FteVerdict.FORWARD, FteVerdict.DROP, FteVerdict.ALLOW)
)


class AgainstTheModel(RuleBasedStateMachine):
    """Random changes, and after each of them every packet of the pool, by both."""

    tables, groups, entries = Bundle("tables"), Bundle("groups"), Bundle("entries")

    def __init__(self):
        super().__init__()
        self.steering = Steering()
        self.counters = {name: FlowCounter() for name in "xyz"}
        self.expected = dict.fromkeys("xyz", 0)
        self.models = {}
        self.root = None

    def model(self, target):
        return self.models[target] if isinstance(target, FlowTable) else target

    def attempt(self, change):
        """Whether the change was taken."""
        try:
            change()
        except CmdError:
            return False
        return True

    @initialize(target=groups, masks=st.lists(MASKS, min_size=5, max_size=5))
    def some_tables(self, masks):
        """Two of them, with entries to come in both; the groups are made in falling order."""
        self.first = [self.create_table(level, None, level == 4) for level in (0, 4)]
        self.set_root(self.first[0])
        ranges = [(0, 6, 2), (0, 2, 3), (1, 4, 4), (1, 0, 4), (0, 0, 2)]
        found = [
            self.create_group(self.first[table], first, size, mask)
            for (table, first, size), mask in zip(ranges, masks)
        ]
        return multiple(*found)

    @rule(target=tables, which=st.integers(0, 1))
    def known_table(self, which):
        return self.first[which]

    @rule(target=tables, level=st.integers(0, 4), onto=st.none() | tables, switch=st.booleans())
    def create_table(self, level, onto, switch):
        miss = onto or (Miss.SWITCH_DOMAIN if switch else Miss.DEFAULT)
        if isinstance(miss, FlowTable) and (miss not in self.models or miss.level <= level):
            miss = Miss.DEFAULT
        table = self.steering.create_table(level, 3, miss)
        self.models[table] = Table(level, self.model(miss))
        return table

    @rule(table=tables, onto=tables)
    def modify_miss(self, table, onto):
        if {table, onto} <= self.models.keys() and self.attempt(
            lambda: self.steering.modify_miss(table, onto)
        ):
            self.models[table].miss = self.models[onto]

    @rule(table=tables)
    def set_root(self, table):
        if table in self.models:
            self.steering.set_root(table)
            self.root = self.models[table]

    @rule(table=tables)
    def destroy_table(self, table):
        if table in self.models and self.attempt(lambda: self.steering.destroy_table(table)):
            gone = self.models.pop(table)
            self.root = None if gone is self.root else self.root

    @rule(target=groups, table=tables, first=st.integers(0, 7), size=st.integers(1, 3), masks=MASKS)
    def create_group(self, table, first, size, masks):
        if table not in self.models:
            return None
        try:
            last = first + size - 1
            return self.steering.create_group(table, first, last, outer(**masks))
        except CmdError:
            return None

    @rule(group=consumes(groups))
    def destroy_group(self, group):
        if group:
            for entry in list(group.entries.values()):
                self.delete(entry)
            self.steering.destroy_group(group)

    @rule(
        target=entries,
        group=groups | groups,
        offset=st.integers(0, 3),
        like=st.sampled_from(POOL),
        verdict=VERDICTS,
        onto=st.lists(tables | st.sampled_from("abc"), min_size=1, max_size=3),
        tag=st.integers(0, 3),
        counting=st.sets(st.sampled_from("xyz")),
    )
    def create_entry(self, group, offset, like, verdict, onto, tag, counting):
        if not group or group.table not in self.models or group not in group.table.groups:
            return None
        index = group.first + offset % (group.last - group.first + 1)
        known = {t for t in self.models if t.level > group.table.level} | set("abc")
        onto = [t for t in onto if t in known] if verdict is FteVerdict.FORWARD else []
        counters = tuple(self.counters[name] for name in sorted(counting))
        action = FteAction(verdict, tuple(map(target_of, onto)), tag, counters)
        values = fields_of(like)
        try:
            entry = self.steering.create_entry(group, index, outer(**values), action)
        except CmdError:
            return None
        masks = {name.partition(".")[2]: mask for name, mask in group.criteria.masks.items()}
        targets = [self.model(t) for t in onto]
        plain = Entry(masks, values, (verdict, targets, tag, sorted(counting)))
        self.models[group.table].entries[index] = plain
        return entry

    @rule(
        target=entries, group=groups, offset=st.integers(0, 3), like=st.sampled_from(POOL[:6]),
        onto=st.lists(tables | st.sampled_from("abc"), min_size=1, max_size=2),
    )  # fmt: skip
    def create_plain_entry(self, group, offset, like, onto):
        return self.create_entry(group, offset, like, FteVerdict.FORWARD, onto, 0, set())

    @rule(entry=entries, tag=st.integers(4, 9))
    def modify_entry(self, entry, tag):
        if entry and entry.group.entries.get(entry.index) is entry:
            self.steering.modify_entry(entry, to("m", tag=tag))
            plain = self.models[entry.group.table].entries[entry.index]
            plain.action = (FteVerdict.FORWARD, ["m"], tag, [])

    @rule(entry=entries)
    def delete_entry(self, entry):
        if entry and entry.group.entries.get(entry.index) is entry:
            self.delete(entry)

    def delete(self, entry):
        self.steering.delete_entry(entry)
        del self.models[entry.group.table].entries[entry.index]

    @invariant()
    def every_packet_goes_where_the_model_says(self):
        names = {counter: name for name, counter in self.counters.items()}
        for packet, headers in zip(POOL, HEADERS):
            found = self.steering.decide(headers, len(headers.frame))
            counted = sorted(names[counter] for counter in found.counters)
            flags = {name for name in ("allowed", "switched", "missed") if getattr(found, name)}
            want = outcome(self.root, fields_of(packet))
            assert (sorted(found.deliveries), counted, flags) == want
            for name in counted:
                self.expected[name] += 1
        for name, counter in self.counters.items():
            assert counter.packets == self.expected[name]

    @invariant()
    def references_are_those_that_are_there(self):
        wanted = dict.fromkeys(self.models, 0)
        for table in self.models:
            if isinstance(table.miss, FlowTable):
                wanted[table.miss] += 1
            for group in table.groups:
                wanted[table] += 1
                for entry in group.entries.values():
                    for target in entry.action.destinations:
                        if target in wanted:
                            wanted[target] += 1
        assert {table: table.refs for table in self.models} == wanted


AgainstTheModel.TestCase.settings = settings(
    max_examples=examples(25), stateful_step_count=30, deadline=None
)
TestAgainstTheModel = AgainstTheModel.TestCase
