"""The NIC without DRAM, driven the way iPXE does (mlx_device.c, mlx_port.c, golan.c)."""

import pytest
from helpers.device.credits import credits_of
from helpers.device.eth_fixtures import *  # noqa: F403
from helpers.device.pci import ConfigurationSpace
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.engine import lifecycle
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.function.bar0 import NODNIC_AT
from emu.device.models import LINKS
from emu.device.pci.vsc import BAD_WORD
from emu.device.port.eth.checksum import verify
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.headers import parse
from emu.device.port.eth.segment import unsegmented
from emu.device.trace.recorder import EventList, Recorder
from emu.device.trace.text import TextForm
from emu.driver.command.gateway import ADDRESS, SYNDROME, Gateway
from emu.driver.ethernet.frames import EthPacket
from emu.driver.world.cable import arrive
from layouts.enums.caps import PortType

SPACE = 4
NIC_INTERFACE, SUPPORTED, LOCATION = 0x14, 0x1FC, 0x240
NO_DRAM, DISABLED = 1 << 9, 1 << 8
PORT, SEND, RECEIVE = 0x100, 0x180, 0x1C0
ENABLES, CQ_HIGH, CQ_LOW = PORT + 4, PORT + 0x68, PORT + 0x6C
NETWORK, DMA, PROMISC, PROMISC_MC = 1 << 31, 1 << 30, 1 << 29, 1 << 28
WQES = 64
RECEIVES = 256
"""Receive requests of the largest ring."""


class BootDriver:
    """iPXE's driver: a ring of each kind and their completion queue."""

    def __init__(self, function, memory):
        bus = ConfigurationSpace(function)
        bus.put(4, 2, 6)  # memory space, bus master
        self._gateway = Gateway(bus)
        self.known = self._gateway.set_space(SPACE)
        self.memory = memory

    def lock(self):
        """Try once to take the gateway (mlx_pci_gw_get_ownership)."""
        return self._gateway.lock()

    def read(self, address):
        return self._gateway.read(address)

    def write(self, address, value):
        """Write a word; return whether the device took it."""
        self._gateway.write(address, value)
        return not self._gateway.get(ADDRESS) & SYNDROME

    def start(self):
        """Turn the NIC on; nodnic_device_init."""
        assert self.read(SUPPORTED) >> 26 & 1
        self.write(NIC_INTERFACE, NO_DRAM)
        assert not self.read(SUPPORTED) >> 31
        self.at = self.read(LOCATION)
        assert self.read(self.at) >> 16 == 1 << 8 | 1, "revision 1, ConnectX-4's format"
        self.lkey = self.read(self.at + 8)

    def open(self, enables=NETWORK | DMA):
        """Make the rings, with receive requests; flexboot_nodnic_eth_open."""
        self.cqes = 1 << (self.read(self.at + CQ_LOW) & 0x3F)
        self.sends = self.memory.alloc(WQES * 64)
        self.receives = self.memory.alloc(WQES * 16)
        self.cq = self.memory.alloc(self.cqes * 64)
        self.memory.write(self.cq, (bytes(63) + b"\1") * self.cqes)
        for ring, start, log in ((SEND, self.sends, 12), (RECEIVE, self.receives, 10)):
            self.write(self.at + ring, start >> 32)
            self.write(self.at + ring + 4, start & 0xFFFFFFFF | log)
        self.write(self.at + CQ_LOW, self.cq & 0xFFFFF000)
        self.write(self.at + CQ_HIGH, self.cq >> 32)
        self.sent = self.received = self.completed = 0
        self.write(self.at + ENABLES, NETWORK)
        self.buffers = [self.memory.alloc(4096) for _ in range(8)]
        for address in self.buffers:
            self.post_receive(address)
        self.write(self.at + ENABLES, enables)

    def segment(self, address, length):
        return length.to_bytes(4, "big") + self.lkey.to_bytes(4, "big") + address.to_bytes(8, "big")

    def post_receive(self, address, length=2048):
        at = self.receives + self.received % WQES * 16
        self.memory.write(at, self.segment(address, length))
        self.received += 1
        self.write(self.at + RECEIVE + 8, (self.received & 0xFFFF) << 8)

    def post_send(self, frame, **wrong):
        """Post a frame, 14 bytes of it inline; shomron_fill_eth_send_wqe."""
        buffer = self.memory.alloc(4096)
        self.memory.write(buffer, frame[14:])
        qpn = self.read(self.at + SEND + 0xC)
        wqe = bytearray(64)
        wqe[1:3] = (self.sent & 0xFFFF).to_bytes(2, "big")
        wqe[3] = wrong.get("opcode", 0xA)
        wqe[4:8] = (qpn << 8 | wrong.get("ds", 4)).to_bytes(4, "big")
        wqe[11] = 3 << 2
        wqe[28:30] = wrong.get("inline", 14).to_bytes(2, "big")
        wqe[30:44] = frame[:14]
        wqe[48:] = self.segment(wrong.get("address", buffer), wrong.get("length", len(frame) - 14))
        wqe[52:56] = wrong.get("lkey", self.lkey).to_bytes(4, "big")
        self.memory.write(self.sends + self.sent % WQES * 64, bytes(wqe))
        self.sent += 1
        self.write(self.at + SEND + 8, (self.sent & 0xFFFF) << 8)

    def poll(self):
        """The next completion as (opcode, queue, counter, length), None for none."""
        cqe = self.memory.read(self.cq + self.completed % self.cqes * 64, 64)
        if cqe[63] & 1 != self.completed // self.cqes & 1:
            return None
        self.completed += 1
        word = [int.from_bytes(cqe[at : at + 4], "big") for at in (0x20, 0x2C, 0x38)]
        assert word[0] == word[2]
        return cqe[63] >> 4, word[2], int.from_bytes(cqe[0x3C:0x3E], "big"), word[1]

    def take(self):
        """The next frame that was received; its buffer is posted again."""
        opcode, queue, counter, length = self.poll()
        assert (opcode, queue) == (2, self.read(self.at + RECEIVE + 0xC))
        address = self.buffers[counter % len(self.buffers)]
        data = self.memory.read(address, length)
        self.post_receive(address)
        return data

    @property
    def is_failed(self):
        return bool(self.read(self.at + PORT) >> 31)


@pytest.fixture
def boot(function, memory):
    driver = BootDriver(function, memory)
    driver.start()
    driver.open()
    return driver


@pytest.fixture
def mac(function):
    return function.hca.nic_vport.permanent_address


def frame_to(mac, payload=b"boot", length=60):
    return (mac + b"\2\0\0\0\0\1\x08\0" + payload).ljust(length, b"\x5a")


def test_the_device_describes_itself(boot, function, mac):
    at = boot.at
    assert boot.read(at + PORT) & 0x1F == 1 << 4 | 3, "Ethernet, active"
    assert boot.read(at + PORT + 8) << 32 | boot.read(at + PORT + 0xC) == int.from_bytes(mac)
    guid = boot.read(at + 0x10) << 32 | boot.read(at + 0x14)
    assert guid == function.hca.options.guid
    function.hca.port.set_link(up=False)
    assert boot.read(at + PORT) & 0xF == 0


def test_a_second_owner_need_not_wait_for_the_first(function, memory):
    first, second = BootDriver(function, memory), BootDriver(function, memory)
    assert first.lock()
    assert not second.lock()
    first.start()
    assert second.lock()
    assert second.read(SUPPORTED) >> 26 & 1


def test_frames_are_sent(boot, function, eth_wire):
    frames = [frame_to(b"\2\0\0\0\0\7", bytes([number]) * 90, 200) for number in range(150)]
    for number, frame in enumerate(frames):
        boot.post_send(frame)
        assert boot.poll() == (0, boot.read(boot.at + SEND + 0xC), number, 0)
    assert [bytes(sent.data) for sent in eth_wire.sent()] == frames
    assert boot.poll() is None
    assert function.hca.nic_vport.sent.unicast.packets == 150


def test_a_short_frame_is_padded(boot, eth_wire):
    boot.post_send(frame_to(b"\2\0\0\0\0\7", length=30))
    assert [len(sent.data) for sent in eth_wire.sent()] == [60]


def test_frames_are_received(boot, function, mac):
    for number in range(300):
        frame = frame_to(mac, bytes([number & 0xFF]), 60 + number)
        arrive(function.hca, Frame(frame))
        assert boot.take() == frame
    assert boot.poll() is None


def test_a_super_frame_is_received_as_its_frames(boot, function, mac):
    packet = EthPacket(payload=bytes(range(250)) * 8)
    whole = unsegmented(mac + packet.header()[6:], packet.payload, 1000)
    arrive(function.hca, Frame(whole, 1000, checked=True))
    first, second = boot.take(), boot.take()
    assert first[54:] + second[54:] == packet.payload
    assert all(verify(parse(one))[1:] == (True, True) for one in (first, second))


@pytest.mark.parametrize(
    ("to", "enables", "is_received"),
    [
        (b"\xff" * 6, 0, True),
        (b"\2\0\0\0\0\x55", 0, False),
        (b"\2\0\0\0\0\x55", PROMISC, True),
        (b"\1\0\x5e\0\0\1", 0, False),
        (b"\1\0\x5e\0\0\1", PROMISC_MC, True),
        (b"\2\0\0\0\0\x55", PROMISC_MC, False),
        (b"\1\0\x5e\0\0\2", 1 << 3, True),
        (b"\1\0\x5e\0\0\2", 1 << 2, False),
    ],
)
def test_addresses(boot, function, to, enables, is_received):
    filter_ = boot.at + PORT + 0x10 + 3 * 8
    boot.write(filter_, 0x0100)
    boot.write(filter_ + 4, 0x5E000002)
    boot.write(boot.at + ENABLES, NETWORK | DMA | enables)
    arrive(function.hca, Frame(frame_to(to)))
    assert (boot.poll() is not None) is is_received
    assert function.hca.nic_vport.steering_discards == (not is_received)


def test_the_completion_queue_holds_what_the_largest_rings_complete(boot, function, mac):
    boot.write(boot.at + ENABLES, 0)
    boot.receives = boot.memory.alloc(RECEIVES * 16)
    boot.memory.write(boot.receives, boot.segment(boot.buffers[0], 2048) * RECEIVES)
    boot.write(boot.at + RECEIVE + 4, boot.receives & 0xFFFFFFFF | 12)
    boot.write(boot.at + RECEIVE + 8, RECEIVES << 8)
    boot.write(boot.at + CQ_LOW, boot.cq & 0xFFFFF000)
    boot.sent = 0
    boot.write(boot.at + ENABLES, NETWORK | DMA)
    for _ in range(WQES):
        boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    for _ in range(RECEIVES):
        arrive(function.hca, Frame(frame_to(mac)))
    counters = [boot.poll()[2] for _ in range(WQES + RECEIVES)]
    assert counters == [*range(WQES), *range(RECEIVES)]
    assert boot.poll() is None


def test_a_frame_without_a_request_is_dropped(boot, function, mac):
    for _ in range(9):
        arrive(function.hca, Frame(frame_to(mac)))
    assert function.hca.nic_vport.received.discards == 1
    assert not boot.is_failed


def test_a_link_partner_waits_for_receive_requests(boot, function, clock, mac):
    assert credits_of(function.hca, clock) == 8
    for _ in range(8):
        arrive(function.hca, Frame(frame_to(mac)))
    assert credits_of(function.hca, clock) == 0
    boot.take()
    assert credits_of(function.hca, clock) == 1


def test_nothing_is_sent_while_the_port_is_down(boot, function, eth_wire):
    function.hca.port.set_link(up=False)
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert boot.poll() is not None
    assert not eth_wire.sent()
    assert function.hca.nic_vport.sent.discards == 1


def test_rings_start_anew_when_the_network_is_closed(boot, function, eth_wire, mac):
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    arrive(function.hca, Frame(frame_to(mac)))
    boot.write(boot.at + ENABLES, 0)
    boot.open()
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert boot.poll()[2] == 0
    arrive(function.hca, Frame(frame_to(mac, b"again")))
    assert boot.take() == frame_to(mac, b"again")


def test_nothing_moves_before_the_driver_enables_dma(function, memory, eth_wire, mac):
    driver = BootDriver(function, memory)
    driver.start()
    driver.open(enables=NETWORK)
    driver.post_send(frame_to(b"\2\0\0\0\0\7"))
    arrive(function.hca, Frame(frame_to(mac)))
    assert driver.poll() is None
    assert not eth_wire.sent()
    driver.write(driver.at + ENABLES, NETWORK | DMA)
    assert len(eth_wire.sent()) == 1


def test_the_full_driver_has_the_function_afterwards(boot, function, mac, request):
    boot.write(NIC_INTERFACE, DISABLED)
    arrive(function.hca, Frame(frame_to(mac)))
    assert boot.poll() is None
    assert not boot.write(boot.at + ENABLES, NETWORK)
    request.getfixturevalue("driver")
    arrive(function.hca, Frame(frame_to(mac)))
    assert boot.poll() is None


def test_the_nic_takes_the_function_from_a_driver(driver, function, memory, mac):
    assert driver
    boot = BootDriver(function, memory)
    boot.start()
    boot.open()
    arrive(function.hca, Frame(frame_to(mac)))
    assert boot.take() == frame_to(mac)


def test_a_function_that_has_failed_takes_no_words(boot, function, eth_wire, caplog):
    function.hca.health.fail()
    caplog.clear()
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert not boot.write(NIC_INTERFACE, DISABLED)
    assert boot.read(boot.at + SEND + 8) == 0
    assert not eth_wire.sent()


def test_a_trace_has_registers_and_completions(boot, function, clock, mac):
    events = EventList()
    function.hca.probes.tracer = Recorder(events, clock)
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    arrive(function.hca, Frame(frame_to(mac)))
    boot.read(boot.at + PORT)
    boot.write(boot.at + ENABLES, 0)
    lines = [TextForm()(event).split(maxsplit=2)[2] for event in events]
    off = ("network_en", "dma_en", "promisc_en", "promisc_multicast_en", "mac_filters_en")
    assert lines == [
        "mmio  read  nodnic port.send.qpn=0x40",
        "mmio  write nodnic port.send.index=1",
        "cqe   cqn 0 qpn 0x40 REQ srqn=0x40 sop_drop_qpn=0x40",
        "cqe   cqn 0 qpn 0x41 RESP_SEND srqn=0x41 byte_cnt=0x3c sop_drop_qpn=0x41 op_own=0x20",
        "mmio  read  nodnic port.reset_needed=0 port.link_type=1 port.state=3",
        f"mmio  write nodnic {' '.join(f'port.{name}=0' for name in off)}",
    ]


def test_a_plan_drops_its_frames(boot, function, eth_wire, mac):
    injector = Injector(function, sink=lambda _: None)
    function.use_faults(injector)
    rules = "".join(f'[[rule]]\npoint="frame.{to}"\naction="drop"\n' for to in ("tx", "rx"))
    injector.load(load(rules))
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert boot.poll() is not None
    assert not eth_wire.sent()
    arrive(function.hca, Frame(frame_to(mac)))
    assert boot.poll() is None


class TestInfiniBand:
    @pytest.fixture
    def base_model(self):
        return LINKS["connectx6"][PortType.IB]

    @pytest.fixture
    def eth_wire(self):
        return None

    def test_has_no_such_nic(self, function, memory):
        driver = BootDriver(function, memory)
        assert driver.read(SUPPORTED) >> 26 & 1 == 0
        assert driver.read(LOCATION) == 0
        assert not driver.write(NIC_INTERFACE, NO_DRAM)
        assert not driver.write(NODNIC_AT + ENABLES, NETWORK)
        assert driver.read(NODNIC_AT) == BAD_WORD


@pytest.mark.hostile
@pytest.mark.parametrize(
    "wrong",
    [
        {"opcode": 0},
        {"ds": 2},
        {"ds": 5},
        {"inline": 0x3FF},
        {"lkey": 7},
        {"address": 0},
        {"length": 0x7FFFFFFF},
        {"length": 2000},
        {"inline": 4, "ds": 2},
        {"inline": 13, "ds": 3},
    ],
)
def test_a_malformed_request_stops_the_rings(boot, eth_wire, function, wrong):
    boot.post_send(frame_to(b"\2\0\0\0\0\7"), **wrong)
    assert boot.is_failed
    assert not eth_wire.sent()
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert not eth_wire.sent()
    boot.write(boot.at + ENABLES, 0)
    boot.open()
    assert not boot.is_failed
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert len(eth_wire.sent()) == 1


@pytest.mark.hostile
def test_more_requests_than_the_ring_holds(boot, eth_wire):
    for _ in range(WQES):
        boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert len(eth_wire.sent()) == WQES
    boot.write(boot.at + SEND + 8, (boot.sent + WQES + 1) << 8)
    assert boot.is_failed
    assert not eth_wire.sent()


@pytest.mark.hostile
def test_a_ring_above_the_limit(boot, eth_wire):
    boot.sends = boot.memory.alloc(2 * WQES * 64)
    boot.write(boot.at + SEND, boot.sends >> 32)
    boot.write(boot.at + SEND + 4, boot.sends & 0xFFFFFFFF | 13)
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert boot.is_failed
    assert not eth_wire.sent()


@pytest.mark.hostile
@pytest.mark.parametrize("address", [2, 0x101, 0x280, 0x1000_0000])
def test_addresses_that_there_are_not(boot, address):
    assert not boot.write(boot.at + address, 1)
    assert boot.read(boot.at + address) == BAD_WORD


@pytest.mark.hostile
@pytest.mark.parametrize(("ring", "log"), [(SEND, 63), (SEND, 0), (RECEIVE, 63), (RECEIVE, 0)])
def test_rings_of_impossible_sizes(boot, function, mac, ring, log):
    boot.write(boot.at + ring + 4, log)
    boot.write(boot.at + ring + 8, 0x00FFFF00)
    arrive(function.hca, Frame(frame_to(mac)))
    assert boot.is_failed


@pytest.mark.hostile
def test_a_frame_longer_than_its_receive_request_is_dropped(boot, function, mac):
    boot.memory.write(boot.receives, boot.segment(boot.buffers[0], 60))
    arrive(function.hca, Frame(frame_to(mac, length=61)))
    assert boot.poll() is None
    assert function.hca.nic_vport.received.discards == 1
    arrive(function.hca, Frame(frame_to(mac)))
    assert boot.take() == frame_to(mac)


@pytest.mark.hostile
def test_rings_that_failed_wait_until_the_network_is_closed(boot, eth_wire):
    boot.post_send(frame_to(b"\2\0\0\0\0\7"), opcode=0)
    boot.write(boot.at + ENABLES, NETWORK | DMA)
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    assert boot.is_failed
    assert not eth_wire.sent()


@pytest.mark.hostile
def test_a_frame_whose_completion_fails_leaves_once(boot, eth_wire):
    boot.write(boot.at + CQ_HIGH, 0xFFFFFFFF)
    boot.post_send(frame_to(b"\2\0\0\0\0\7"))
    for _ in range(3):
        boot.write(boot.at + ENABLES, NETWORK | DMA)
    assert len(eth_wire.sent()) == 1
    assert boot.is_failed


@pytest.mark.hostile
@pytest.mark.parametrize("is_mine", [False, True])
def test_a_large_super_frame_takes_no_more_than_the_ring_does(boot, function, mac, is_mine):
    packets = 2000
    packet = EthPacket(payload=bytes(20 * packets))
    to = mac if is_mine else b"\2\0\0\0\0\x55"
    whole = unsegmented(to + packet.header()[6:], packet.payload, 20)
    before = function.hca.budget.steps
    arrive(function.hca, Frame(whole, 20, checked=True))
    assert function.hca.budget.steps - before < packets // 2
    vport = function.hca.nic_vport
    lost = (0, packets - 8) if is_mine else (packets, 0)
    assert (vport.steering_discards, vport.received.discards) == lost


@pytest.mark.parametrize(("used", "found"), [(0, 8), (4, 4), (5, 0), (8, 0)])
def test_a_sender_of_super_frames_waits_for_half_of_what_is_ever_posted(
    boot, function, clock, mac, used, found
):
    """The driver keeps fewer receive requests than a super-frame has packets."""
    for _ in range(used):
        arrive(function.hca, Frame(frame_to(mac)))
    assert credits_of(function.hca, clock, 44) == found


def test_nothing_is_left_of_another_drivers_settings(boot, function, memory):
    assert boot.read(boot.at + SEND + 4)
    boot.write(NIC_INTERFACE, DISABLED)
    lifecycle.set_admin(function.hca, up=False)
    after = BootDriver(function, memory)
    after.start()
    assert after.read(after.at + SEND + 4) == 0
    assert after.read(after.at + PORT) & 0xF == 3


def test_a_reset_ends_the_nic(boot, function, memory, mac):
    function.reset()
    arrive(function.hca, Frame(frame_to(mac)))
    after = BootDriver(function, memory)
    assert boot.poll() is None
    after.start()
    after.open()
    arrive(function.hca, Frame(frame_to(mac)))
    assert after.take() == frame_to(mac)


_words = st.tuples(st.integers(0, 0x600), st.integers(0, 0xFFFFFFFF))


@pytest.mark.hostile
@settings(
    max_examples=examples(30),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(words=st.lists(_words, max_size=40))
def test_random_words(boot, function, mac, words):
    for offset, value in words:
        boot.write(boot.at + offset, value)
        boot.read(boot.at + offset)
        arrive(function.hca, Frame(frame_to(mac)))
    assert not function.hca.health.has_failed
