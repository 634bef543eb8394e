"""What a walk through software-owned entries costs, and what is kept of entries once read."""

import pytest

from emu.device.engine.eth.ste.actions import ActionId
from emu.device.engine.eth.ste.header_edits import Anchor
from emu.device.engine.eth.ste.walk import (
    FIELDS_PER_ACTION,
    FIELDS_PER_DECODED,
    FIELDS_PER_ENTRY,
)
from emu.device.engine.eth.steering.inside import INNER_COST
from emu.device.engine.eth.steering.route import route
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.objects.memory.sw_icm import DECODED, HEADER_MODIFY
from emu.device.port.eth.headers import parse
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, LOG_CHANGES_PER_STEP, LOG_STEERED_PER_STEP
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.steering_entries import SoftwareTables, always_miss, entry
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.steering.ste import ste_double_action_insert_with_inline_v1

IPV4_5_TUPLE, INNER_5_TUPLE = 0x0007, 0x0008
RX_DROP = icm_address(IcmKind.RX_DROP)


@pytest.fixture
def model():
    return with_software_steering(LINKS["connectx6dx"][PortType.ETH])


@pytest.fixture
def tables(node):
    return SoftwareTables(node)


@pytest.fixture
def received(tables, function, flows):
    """The queues that a packet comes to from a table of software."""

    def find(root):
        flows.set_root(tables.table(root))
        data = EthPacket().frame()
        return route(function.hca, parse(data), len(data))

    return find


@pytest.mark.hostile
def test_lists_are_bounded(received, tables, hca):
    """An entry with a long list that does nothing counts for its actions, also when it misses."""
    at = tables.place(bytes(64))
    for made in (entry(hit=at, action=b"\x0f\xff\0\0"), always_miss(at)):
        tables.write(at, made[:24] + b"\x0f\xff\0\0" + made[28:])
        before = len(hca.icm.decoded)
        assert not received(at)
        assert len(hca.icm.decoded) - before <= 1
    table = hca.flow_domains[FlowTableType.NIC_RX].root
    walked = table.software.walk(table, parse(EthPacket().frame()), 1000)
    assert walked.cost <= 1000 + FIELDS_PER_ENTRY + 256 * FIELDS_PER_ACTION


def listed(tables, count):
    """An action that makes as many changes; each adds to the time to live."""
    tables.write(HEADER_MODIFY.start, b"\x07\x0e\x28\x08\0\0\0\xff" * count, HEADER_MODIFY)
    return bytes((0x0F, count, 0, 0))


@pytest.mark.hostile
def test_decoded_entries_are_in_the_ledger(received, tables, hca, driver, monkeypatch):
    """Until they are written again, and no more of them than there is room for."""
    action, ledger = listed(tables, 255), hca.ledger
    places = [tables.place(entry(hit=RX_DROP, action=action)) for _ in range(8)]
    assert not received(places[0])
    one = ledger.accounts[DECODED]
    assert one > 255 * 436, "as much as tracemalloc has found"
    for place in places[1:4]:
        assert not received(place)
    assert ledger.accounts[DECODED] == 4 * one
    tables.write(places[1], entry(hit=RX_DROP))
    assert ledger.accounts[DECODED] == 3 * one
    monkeypatch.setattr("emu.device.objects.memory.sw_icm.MAX_DECODED_BYTES", 3 * one)
    for place in places[4:]:
        assert not received(place)
        assert ledger.accounts[DECODED] <= 3 * one
    monkeypatch.setattr(ledger, "limit", ledger.used + one // 2)
    assert not received(places[0])
    assert places[0] not in hca.icm.decoded
    driver.must(Op.TEARDOWN_HCA)
    assert DECODED not in ledger.accounts


@pytest.mark.hostile
def test_reading_an_entry_for_the_first_time_is_charged(received, tables, hca):
    action = listed(tables, 100)
    number = tables.table(tables.place(entry(hit=RX_DROP, action=action)))
    walk = hca.flow_tables.need(number).software.walk
    table, packet = hca.flow_tables.need(number), parse(EthPacket().frame())
    costs = [walk(table, packet, 1 << 15).cost for _ in range(2)]
    assert costs[0] - costs[1] >= 100 * FIELDS_PER_DECODED


@pytest.mark.hostile
@pytest.mark.parametrize("bad", ["action", "lookup"])
def test_reading_a_bad_entry_is_charged_each_time(received, tables, hca, bad):
    """Nothing is kept of it: the next packet reads it anew."""
    action = listed(tables, 100)
    if bad == "action":
        tables.write(HEADER_MODIFY.start + 99 * 8, b"\xee" * 8, HEADER_MODIFY)
    lookup = {"lookup": 0x00FF, "mask": b"\xff"} if bad == "lookup" else {}
    number = tables.table(tables.place(entry(hit=RX_DROP, action=action, **lookup)))
    walk = hca.flow_tables.need(number).software.walk
    table, packet = hca.flow_tables.need(number), parse(EthPacket().frame())
    for _ in range(2):
        assert walk(table, packet, 1 << 15).cost > 100 * FIELDS_PER_DECODED
    (why,) = table.software.dropped
    assert "not supported" in why


@pytest.mark.hostile
def test_fields_inside_tunnels_cost_more(received, tables, hca):
    """Where they are is found anew for each."""
    costs = []
    for lookup in (IPV4_5_TUPLE, INNER_5_TUPLE):
        ones = b"\xff" * 16
        number = tables.table(tables.place(entry(lookup, mask=ones, tag=ones, miss=RX_DROP)))
        table = hca.flow_tables.need(number)
        costs.append(table.software.walk(table, parse(EthPacket().frame()), 1 << 15).cost)
    assert costs[1] >= costs[0] + 18 * (INNER_COST - 1)


@pytest.mark.hostile
def test_moving_headers_of_large_frames_costs_more(tables, hca):
    """Each action of a list makes all of a frame anew."""
    one = ste_double_action_insert_with_inline_v1.new(
        action_id=ActionId.INSERT_INLINE, start_anchor=Anchor.MAC, start_offset=6
    )
    count = 64
    tables.write(HEADER_MODIFY.start, bytes(one) * count, HEADER_MODIFY)
    number = tables.table(tables.place(entry(hit=RX_DROP, action=bytes((0x0F, count, 0, 0)))))
    table = hca.flow_tables.need(number)
    costs = []
    for size in (100, 100, 40_000):
        frame = EthPacket(payload=bytes(size)).frame()
        walked = table.software.walk(table, parse(frame), 1 << 15)
        assert len(walked.headers.frame) == len(frame) + 4 * count
        costs.append(walked.cost)
    moved = count >> LOG_CHANGES_PER_STEP
    assert costs[1] >= count * FIELDS_PER_ACTION + (moved << LOG_STEERED_PER_STEP)
    copied = count * 40_000 >> LOG_BYTES_PER_STEP
    assert costs[2] - costs[1] >= copied << LOG_STEERED_PER_STEP - 1
