"""Packets in tunnels: checksums, large sends, where the inner headers are (core/en_tx.c)."""

from dataclasses import replace

import pytest
from helpers.net.tunnels import ADDRESSES, FRAMES, KINDS, VXLAN_PORT, outer_of, segments, tunnelled
from hypothesis import given
from hypothesis import strategies as st

from emu.device.models import LINKS
from emu.device.objects.eth.parser import Parser
from emu.device.port.eth.headers import FrameError, parse
from emu.device.port.eth.tunnel import cut, inner_of, insert_both
from emu.driver.ethernet.frames import TCP, UDP, EthPacket, ones_complement_sum
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.wqe import EthChecksum, Opcode

INNER = EthChecksum.L3 | EthChecksum.L3_INNER | EthChecksum.L4_INNER
PARSER = Parser()
KINDS_AND_VERSIONS = [
    (kind, outer, inner) for kind in KINDS for outer in (4, 6) for inner in (4, 6)
]


def packet(version, protocol=TCP, size=300):
    payload = bytes(number * 7 & 0xFF for number in range(size))
    return EthPacket(
        version=version, protocol=protocol, chain=protocol, payload=payload, **ADDRESSES[version]
    )


def damaged(frame, inner_l3):
    """With wrong checksums in all headers that have one, as the driver leaves them."""
    data = bytearray(frame)
    for at in (14, inner_l3):
        if data[at] >> 4 == 4:
            data[at + 10 : at + 12] = b"\xaa\xbb"
    l4 = inner_l3 + (20 if data[inner_l3] >> 4 == 4 else 40)
    at = l4 + (16 if data[inner_l3 + (9 if data[inner_l3] >> 4 == 4 else 6)] == TCP else 6)
    data[at : at + 2] = b"\x12\x34"
    return bytes(data)


@pytest.mark.parametrize(("kind", "outer", "inner"), KINDS_AND_VERSIONS)
@pytest.mark.parametrize("protocol", [TCP, UDP])
class TestAlone:
    def test_inner_headers(self, kind, outer, inner, protocol):
        frame, inner_l3 = tunnelled(kind, outer, packet(inner, protocol))
        found = inner_of(parse(frame), PARSER)
        assert (found.l3, found.version, found.protocol) == (inner_l3, inner, protocol)
        assert found.l4 == inner_l3 + (20 if inner == 4 else 40)
        assert found.end == len(frame)

    def test_checksums(self, kind, outer, inner, protocol):
        right, inner_l3 = tunnelled(kind, outer, packet(inner, protocol))
        wrong = damaged(right, inner_l3)
        assert wrong != right
        headers = parse(wrong)
        assert insert_both(headers, inner_of(headers, PARSER), (True, False, True, True)) == right

    @pytest.mark.parametrize("mss", [100, 113, 300])
    def test_large_send(self, kind, outer, inner, protocol, mss):
        one = packet(inner, protocol, size=300)
        frame, inner_l3 = tunnelled(kind, outer, one)
        header = damaged(frame, inner_l3)[: len(frame) - 300]
        headers = parse(header, whole=False)
        found = cut(header, one.payload, mss, headers, inner_of(headers, PARSER, whole=False))
        assert found == segments(kind, outer, one, mss)


def test_outer_checksum_stays():
    """A UDP tunnel's, which the driver has made for a packet (local checksum offload)."""
    one = packet(4, size=200)
    outer = replace(outer_of("vxlan", 4, replace(one, payload=one.payload[:100])), checked=True)
    whole = outer.frame()
    header = whole[: len(whole) - 100]
    headers = parse(header, whole=False)
    found = cut(header, one.payload, 100, headers, inner_of(headers, PARSER, whole=False))
    assert [frame[34:42] for frame in found] == [whole[34:42]] * 2
    for frame in found:
        udp = frame[34:]
        pseudo = outer.pseudo(len(udp))
        assert ones_complement_sum(pseudo + udp) == 0xFFFF


def test_headers_cut_off():
    """GRE's optional words, which the frame ends before, are no headers of a packet inside."""
    frame = bytearray(tunnelled("gre", 4, packet(4, size=40))[0][:38])
    frame[34:38] = b"\x10\0\x08\0"
    assert inner_of(parse(bytes(frame)), PARSER) is None


def test_datagrams_that_look_like_a_tunnel():
    """To a port that is none's."""
    frame = bytearray(tunnelled("geneve", 4, packet(4, size=40))[0])
    assert inner_of(parse(bytes(frame)), PARSER) is not None
    frame[36:38] = b"\x17\xc2"
    assert inner_of(parse(bytes(frame)), PARSER) is None


@pytest.mark.parametrize("size", range(42, 50))
def test_geneve_cut_off(size):
    frame = tunnelled("geneve", 4, packet(4, size=40))[0][:size]
    assert inner_of(parse(frame, whole=False), PARSER, whole=False) is None


def test_something_else_inside():
    """Of a type that is neither IP's nor that of frames."""
    frame = bytearray(tunnelled("gre", 4, packet(4, size=40))[0])
    frame[36:38] = b"\x08\x06"
    assert inner_of(parse(bytes(frame)), PARSER) is None


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_large_sends_want_both_packets(where):
    frame, _ = tunnelled("vxlan", 4, packet(4, size=40))
    headers = parse(frame)
    both = [headers, inner_of(headers, PARSER)]
    both[where == "inside"] = parse(frame[:12] + b"\x08\x06" + bytes(28))
    with pytest.raises(FrameError, match="without outer or inner IP header"):
        cut(frame[:-40], frame[-40:], 20, *both)


@pytest.mark.parametrize("kind", ["vxlan", "geneve", "gre", "ip"])
@given(data=st.data())
def test_broken_headers(kind, data):
    """Whatever the bytes are: headers inside the frame, or none."""
    frame, _ = tunnelled(kind, 4, packet(4, size=40))
    size = data.draw(st.integers(14, len(frame)))
    frame = bytearray(frame[:size])
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(12, size - 1), st.integers(0, 255)), max_size=6)
    ):
        frame[min(at, size - 1)] = value
    for whole in (True, False):
        headers = parse(bytes(frame), whole=whole)
        found = inner_of(headers, PARSER, whole)
        if found is None:
            continue
        assert 14 <= found.l3 <= size
        assert found.l4 == 0 or found.l3 < found.l4 <= found.end <= size
        insert_both(headers, found, (True, True, True, True))
        try:
            cut(bytes(frame), bytes(50), 20, headers, found)
        except FrameError:
            continue


# -- as a send queue sends them


@pytest.fixture
def region(node):
    return node.region(1 << 16, va=0x10000)


@pytest.fixture
def sent(node, eth_wire):
    def look():
        node.settle()
        return [frame.data for frame in eth_wire.sent()]

    return look


@pytest.fixture
def send(sq, region, sent):
    def frames(frame, **segment):
        region.write(frame)
        sq.send((len(frame), region.key, region.va), **segment)
        return sent()

    return frames


@pytest.mark.parametrize("kind", KINDS)
def test_one_packet(send, kind):
    right, inner_l3 = tunnelled(kind, 4, packet(4))
    assert send(damaged(right, inner_l3), cs_flags=INNER) == [right]


def test_with_a_tag(send):
    right, inner_l3 = tunnelled("vxlan", 4, packet(4))
    (found,) = send(damaged(right, inner_l3), cs_flags=INNER, vlan=7)
    assert found == right[:12] + b"\x81\x00\x00\x07" + right[12:]


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tags", [((0x8100, 5),), ((0x88A8, 6), (0x8100, 5))])
@pytest.mark.parametrize("kind", FRAMES)
class TestTagsInside:
    """A VLAN interface over one of the tunnel's (core/en_tx.c: mlx5e_tx_get_gso_ihs)."""

    def test_one_packet(self, send, kind, tags, version):
        right, inner_l3 = tunnelled(kind, 4, replace(packet(version), tags=tags))
        assert send(damaged(right, inner_l3), cs_flags=INNER) == [right]

    def test_large_send(self, sq, region, sent, kind, tags, version):
        one = replace(packet(version, size=1000), tags=tags)
        frame, inner_l3 = tunnelled(kind, 4, one)
        header = damaged(frame, inner_l3)[: len(frame) - 1000]
        region.write(one.payload)
        data = (1000, region.key, region.va)
        sq.send(data, opcode=Opcode.LSO, headers=header, mss=300, cs_flags=INNER)
        assert sent() == segments(kind, 4, one, 300)
        assert sq.cq.poll().opcode is CqeOpcode.REQ


def test_more_tags_inside_than_are_parsed():
    one = replace(packet(4), tags=((0x8100, 5),) * 3)
    frame, _ = tunnelled("vxlan", 4, one)
    assert inner_of(parse(frame), PARSER) is None


def test_no_tunnel(send):
    """Only the outer header's checksum; the rest leaves as it is."""
    right = packet(4).frame()
    wrong = bytearray(right)
    wrong[24:26] = wrong[50:52] = b"\xaa\xbb"
    (found,) = send(bytes(wrong), cs_flags=INNER)
    assert found[24:26] == right[24:26]
    assert found[50:52] == b"\xaa\xbb"


@pytest.mark.parametrize("kind", KINDS)
def test_large_send(sq, region, sent, kind):
    one = packet(6, size=1000)
    frame, inner_l3 = tunnelled(kind, 4, one)
    header = damaged(frame, inner_l3)[: len(frame) - 1000]
    region.write(one.payload)
    sq.send(
        (1000, region.key, region.va), opcode=Opcode.LSO, headers=header, mss=300, cs_flags=INNER
    )
    assert sent() == segments(kind, 4, one, 300)
    assert sq.cq.poll().opcode is CqeOpcode.REQ


def test_large_send_without_a_tunnel(sq, region, sent):
    one = packet(4, size=1000)
    region.write(one.payload)
    sq.send(
        (1000, region.key, region.va), opcode=Opcode.LSO, headers=one.header(), mss=300,
        cs_flags=INNER,
    )  # fmt: skip
    assert sent() == []
    assert sq.cq.poll().opcode is CqeOpcode.REQ_ERR


@pytest.mark.hostile
@pytest.mark.parametrize("outer", [4, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_large_send_beyond_ip(node, sq, sent, kind, outer):
    """Each inner packet has a length that IP can name, but not with the tunnel's headers."""
    one = packet(4, size=65490)
    region = node.region(1 << 16, va=0x10000)
    region.write(one.payload)
    header = tunnelled(kind, outer, packet(4))[0][:-300]
    sq.send(
        (65490, region.key, region.va), opcode=Opcode.LSO, headers=header, mss=65490,
        cs_flags=INNER,
    )  # fmt: skip
    assert sent() == []
    assert sq.cq.poll().opcode is CqeOpcode.REQ_ERR


def test_small_packets_together(sq, region, sent):
    """A multi-packet request with inner checksums (core/en_tx.c: mlx5e_tx_mpwqe_add_dseg)."""
    frames, segs, at = [], [], 0
    for size in (10, 20, 30):
        right, inner_l3 = tunnelled("gre", 4, packet(4, UDP, size))
        wrong = damaged(right, inner_l3)
        region.write(wrong, at)
        segs.append((len(wrong), region.key, region.va + at))
        frames.append(right)
        at += 256
    sq.send(*segs, opcode=Opcode.ENHANCED_MPSW, cs_flags=INNER)
    assert [frame[: len(right)] for frame, right in zip(sent(), frames)] == frames


class TestSoftwareParsing:
    """The request says where the inner packet is (core/en/txrx.h: mlx5e_set_eseg_swp)."""

    PORT = 5555
    """Of a tunnel that the adapter does not know."""

    @pytest.fixture
    def sq(self, node, driver):
        return SendQueue(node, tisn=create_tis(driver, alloc_td(driver)), allow_swp=1)

    def post(self, sq, region, frame, inner_l3, version):
        region.write(frame)
        body = bytearray(32)
        body[3] = inner_l3 // 2
        body[4] = INNER
        body[5] = 1 if version == 6 else 0
        body[16:] = len(frame).to_bytes(4, "big") + region.key.to_bytes(4, "big")
        body += region.va.to_bytes(8, "big")
        sq.post(Opcode.SEND, bytes(body))

    @pytest.mark.parametrize("version", [4, 6])
    def test_an_unknown_tunnel(self, sq, region, sent, version):
        outer = outer_of("vxlan", 4, packet(version))
        outer = replace(outer, ports=outer.ports[:2] + self.PORT.to_bytes(2, "big"))
        right = outer.frame()
        inner_l3 = len(right) - len(packet(version).frame()) + 14
        self.post(sq, region, damaged(right, inner_l3), inner_l3, version)
        assert sent() == [right]

    @pytest.mark.parametrize("at", [2, 254, 510])
    def test_a_wrong_place(self, sq, region, sent, at):
        frame = outer_of("vxlan", 4, packet(4)).frame()
        self.post(sq, region, frame, at, 4)
        assert [data[34:] for data in sent()] == [frame[34:]]


def test_software_parsing_is_asked_for(sq, region, sent):
    """Offsets of a queue without allow_swp do not matter."""
    frame, _ = tunnelled("vxlan", 4, packet(4))
    TestSoftwareParsing().post(sq, region, frame, 4, 4)
    assert sent() == [frame]


# -- ports of VXLAN


class TestPorts:
    def change(self, driver, op, port):
        return driver.command(op, vxlan_udp_port=port).status

    def add(self, driver, port):
        return self.change(driver, Op.ADD_VXLAN_UDP_DPORT, port)

    def delete(self, driver, port):
        return self.change(driver, Op.DELETE_VXLAN_UDP_DPORT, port)

    def test_another_port(self, driver, send):
        outer = outer_of("vxlan", 4, packet(4))
        right = replace(outer, ports=outer.ports[:2] + (8472).to_bytes(2, "big")).frame()
        inner_l3 = len(right) - len(packet(4).frame()) + 14
        wrong = damaged(right, inner_l3)
        (found,) = send(wrong, cs_flags=INNER)
        assert found != right
        assert self.add(driver, 8472) == Status.OK
        assert send(wrong, cs_flags=INNER) == [right]
        assert self.delete(driver, 8472) == Status.OK
        assert send(wrong, cs_flags=INNER) == [found]

    def test_as_the_driver_does(self, driver, hca):
        """It adds VXLAN's own port, which is there already, and takes it away when it leaves."""
        assert self.add(driver, VXLAN_PORT) == Status.OK
        assert self.delete(driver, VXLAN_PORT) == Status.OK
        assert hca.parser.vxlan_ports == frozenset()
        driver.must(Op.TEARDOWN_HCA)
        assert hca.parser.vxlan_ports == {VXLAN_PORT}

    def test_no_more_than_there_are(self, driver, hca):
        most = hca.caps.ethernet.max_vxlan_udp_ports
        assert [self.add(driver, 8000 + number) for number in range(most)] == [
            *[Status.OK] * (most - 1), Status.LIM_ERR,
        ]  # fmt: skip
        assert self.delete(driver, 9999) == Status.BAD_PARAM_ERR
        assert len(hca.parser.vxlan_ports) == most


@pytest.mark.parametrize("name", ["connectx4lx", "connectx5", "connectx7", "connectx7-vf"])
def test_which_cards_have_what(name):
    ethernet = LINKS[name][PortType.ETH].ethernet
    assert ethernet["tunnel_stateless_vxlan"] == ethernet["tunnel_stateless_gre"] == 1
    later = {"swp", "swp_csum", "swp_lso", "tunnel_stateless_ip_over_ip"}
    assert (later <= ethernet.keys()) == (name != "connectx4lx")
