"""Entries of software that the device does not know: refused as they are decoded."""

import pytest

from emu.device.engine.eth.ste.actions import Planner
from emu.device.engine.eth.ste.entry import BadEntryError, decoded
from emu.device.engine.eth.ste.header_edits import Anchor, insert, moved, remove
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.models.switching import with_switch
from emu.device.port.eth.frame import MAX_BYTES
from emu.device.port.eth.headers import FrameError, parse
from emu.driver.ethernet.flow_fields import reformat_fields
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.steering_entries import entry
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.packet_reformat import ReformatType

FRAME = EthPacket().frame()
TUNNEL = FRAME[:34] + bytes.fromhex("0000 6558")
METER = b"\x12\0\0\1\x82\0\0\6"
WITHOUT_ETHERNET = b"\x09\0\x07\0"
WITHOUT_VLAN = b"\x08\x02\0\x02"


@pytest.fixture
def model():
    return with_switch(with_software_steering(LINKS["connectx7"][PortType.ETH]))


@pytest.fixture
def planner(hca):
    return Planner(hca.icm, 2, hca.packet_reformats.get)


@pytest.fixture
def context(driver):
    """The number of a new packet reformat context."""

    def make(kind, data=TUNNEL):
        fields = reformat_fields(kind, data)
        made = driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **fields)
        return int(made.packet_reformat_id)

    return make


def insertion(number, attributes):
    return bytes((0x0B, 0, 0, attributes)) + number.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"match_polarity": 1}, "match_polarity"),
        ({"hash_type": 1}, "hash_type"),
        ({"hash_after_actions": 1}, "hash_after_actions"),
        ({"lookup": 0x0400}, "match_definer_ctx_idx"),
        ({"size": 4, "entry_format": 2}, "without a byte mask"),
        ({"size": 4, "action": METER}, "with a meter"),
        ({"action": METER[:4] + b"\x80" + METER[5:]}, "aso_context_type 0x0"),
        ({"action": b"\x06\x08\x20\x00"}, "0 bits from 0"),
        ({"action": b"\x06\x08\x21\x20"}, "32 bits from 1"),
        ({"action": b"\x09\x01\x07\0"}, "from anchor 0x1"),
    ],
)
def test_what_is_not_supported(planner, fields, why):
    assert decoded(entry(), planner)
    with pytest.raises(BadEntryError, match=why):
        decoded(entry(**fields), planner)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (ReformatType.L2_TO_L2_TUNNEL, 1, 0), (ReformatType.INSERT_HDR, 0, 1),
        (ReformatType.INSERT_HDR, 0, 2),
    ],
)  # fmt: skip
def test_insertions_of_another_kind(planner, context, kind, right, wrong):
    number = context(kind)
    assert planner.plan(insertion(number, right)).steps
    with pytest.raises(BadEntryError, match="does not fit"):
        decoded(entry(action=insertion(number, wrong)), planner)


@pytest.mark.parametrize("before", [b"", WITHOUT_VLAN])
def test_a_tunnel_of_packets_replaces_the_ethernet_header(planner, context, before):
    tunnel = insertion(context(ReformatType.L2_TO_L3_TUNNEL), 1)
    assert planner.plan(WITHOUT_ETHERNET + tunnel).steps
    with pytest.raises(BadEntryError, match="without prior removal"):
        decoded(entry(action=before + tunnel), planner)


@pytest.mark.parametrize(
    ("move", "frame"),
    [
        (insert(Anchor.START, len(FRAME) + 1, b"1234"), FRAME),
        (insert(Anchor.START, 0, b"1234"), FRAME.ljust(MAX_BYTES, b"\0")),
        (remove(Anchor.START, len(FRAME) - 1, 2), FRAME),
    ],
    ids=["behind the end", "too long", "over the end"],
)
def test_moves_that_the_packet_has_no_bytes_for(move, frame):
    with pytest.raises(FrameError):
        moved(parse(frame), [move])
