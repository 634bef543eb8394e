"""What a capture says of the traffic of whole functions; tshark reads it where there is one."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.device.captured import NAMES, plugged_functions

from emu.device.engine.eth.transmit import FRAME_TX_POINT
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.frames import EthPacket
from emu.driver.nodes.two_nodes import two_nodes
from emu.server.net.eth.segments import Segments
from emu.server.net.ib.local import LocalFabric
from emu.server.service.pcap import Capture, PcapOptions

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@dataclass
class Shark:
    """A capture that is read when it is closed."""

    path: Path
    capture: Capture

    def rows(self, *fields, where=""):
        """A list of field values for each packet."""
        self.capture.close()
        command = ["tshark", "-r", str(self.path), "-T", "fields", "-E", "separator=|"]
        command += [word for field in fields for word in ("-e", field)]
        said = subprocess.run(
            [*command, "-Y", where] if where else command,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line.split("|") for line in said.stdout.splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "capture.pcapng"


# -- Ethernet


@pytest.fixture
def segments(clock):
    return Segments(clock)


@pytest.fixture
def plugged(clock, segments):
    """Two Ethernet functions on one segment, whose links are up, and their cables."""
    return plugged_functions(clock, segments)


@pytest.fixture
def cables(plugged):
    return plugged[1]


@pytest.fixture
def functions(plugged):
    return plugged[0]


@pytest.fixture
def capture(path, clock, functions, cables):
    capture = Capture(PcapOptions(path), clock, functions, cables, LocalFabric(clock), NAMES)
    return Shark(path, capture)


def send(function, frame):
    function.hca.eth_wire.transmit(function.hca, frame)


@needs_tshark
def test_a_frame_is_at_both_ports_and_a_drop_says_why(functions, capture, segments):
    one, _two = functions
    segments.plug("a third port, without which the segment is a cable and drops no source", 0)
    send(one, Frame(EthPacket(payload=bytes(3000)).frame(), 1000, checked=True))
    send(one, Frame(bytes.fromhex("021122334466 031122334455 88b5").ljust(60, b"\0")))
    rows = capture.rows(
        "frame.interface_name", "frame.packet_flags_direction", "eth.src", "frame.len",
        "frame.comment", "_ws.col.Protocol",
    )  # fmt: skip
    assert [row[:4] for row in rows] == [
        ["function 0", "0x00000002", "02:66:77:88:99:aa", "3054"],
        ["function 1", "0x00000001", "02:66:77:88:99:aa", "3054"],
        ["function 0", "0x00000002", "03:11:22:33:44:55", "60"],
    ]
    assert [row[4] for row in rows] == [
        "",
        "dropped: no flow entry",
        "dropped: bad source",
    ]
    assert rows[0][5] == "TCP"


@needs_tshark
def test_a_fault_without_a_packet_is_an_entry_between_packets(functions, capture):
    one, _two = functions
    injector = Injector(one, 0, capture.capture.fault)
    one.use_faults(injector)
    injector.load(load('[[rule]]\nname="off"\npoint="load"\naction="link"\nup=false\n'))
    injector.clear()
    one.hca.eth.set_link(up=True)
    send(one, Frame(EthPacket().frame().ljust(60, b"\0")))
    rows = capture.rows("systemd_journal.message", "frame.comment", "frame.interface_name")
    assert rows == [["function 0: fault off: link at load", "", ""], ["", "", "function 0"],
                    ["", "dropped: no flow entry", "function 1"]]  # fmt: skip


@needs_tshark
@pytest.mark.parametrize(
    ("rule", "places"),
    [
        ('point="frame.tx"\naction="drop"', ["function 0"]),
        ('point="frame.tx"\naction="corrupt"', ["function 0", "function 1"]),
        ('point="frame.rx"\naction="drop"', ["function 0", "function 1"]),
    ],
)
def test_a_frame_that_a_rule_acts_on_has_the_comment(functions, capture, rule, places):
    """Dropped at the sender, changed there, dropped at the receiver; the next frame has none."""
    for index, function in enumerate(functions):
        injector = Injector(function, index, capture.capture.fault)
        function.use_faults(injector)
        injector.load(load(f'[[rule]]\nname="it"\n{rule}\nindex=1\n'))
    one = functions[0].hca
    for _ in range(2):
        frame = Frame(EthPacket().frame().ljust(60, b"\0"))
        one.probes.faults.show(FRAME_TX_POINT, frame, one.vhca)
    rows = capture.rows("frame.interface_name", "frame.comment")
    assert [name for name, _text in rows] == [*places, "function 0", "function 1"]
    marked = [at for at, (_name, text) in enumerate(rows) if "fault it: " in text]
    assert marked == [len(places) - 1 if "rx" in rule else 0]


def test_without_a_capture_nothing_is_asked(functions, cables, path, clock):
    capture = Capture(PcapOptions(path), clock, functions, cables, LocalFabric(clock), NAMES)
    capture.close()
    assert [cable.watcher for cable in cables] == [None, None]


def test_a_capture_that_ends_lets_go_of_the_functions(functions, cables, clock, caplog):
    capture = Capture(
        PcapOptions(Path("/dev/full")), clock, functions, cables, LocalFabric(clock), NAMES
    )
    send(functions[0], Frame(EthPacket().frame().ljust(60, b"\0")))
    clock.advance(1_000_000_000)
    assert [cable.watcher for cable in cables] == [None, None]
    send(functions[0], Frame(EthPacket().frame().ljust(60, b"\0")))
    capture.close()
    assert len(caplog.messages) == 1
    caplog.clear()


# -- InfiniBand


@pytest.fixture
def messages():
    return False


@pytest.fixture
def subnet(path, clock, wire, model, messages):
    """Two connected InfiniBand functions, and the capture."""
    nodes = two_nodes(model, clock, wire)
    functions = [node.function for node in nodes]
    capture = Capture(
        PcapOptions(path, messages=messages), clock, functions, [None, None], wire, NAMES
    )
    return nodes, Shark(path, capture)


def transfer(nodes, clock):
    one, two = nodes
    qp, peer = one.queue_pair(), two.queue_pair()
    region = two.region(64)
    qp.init().to_rtr(two.lid, peer.qpn, 0x20).to_rts(0x10)
    peer.init().to_rtr(one.lid, qp.qpn, 0x10).to_rts(0x20)
    qp.write((region.key, region.va), b"one message")
    for _ in range(20):
        one.settle()
        clock.advance(1000)
    assert [done.syndrome for done in qp.cq.drain()] == [0]
    assert region.read(0, 11) == b"one message"


@needs_tshark
@pytest.mark.parametrize("messages", [True])
def test_messages_as_packets(subnet, clock):
    nodes, capture = subnet
    transfer(nodes, clock)
    rows = capture.rows(
        "frame.interface_name", "infiniband.lrh.slid", "infiniband.lrh.dlid",
        "infiniband.bth.opcode", "infiniband.bth.psn",
    )  # fmt: skip
    write, ack = ["1", "2", "10", "16"], ["2", "1", "17", "16"]
    assert rows == [
        ["function 0", *write], ["function 1", *write], ["function 1", *ack], ["function 0", *ack],
    ]  # fmt: skip


@needs_tshark
def test_messages_inside_the_process_are_not_seen_unless_asked_for(subnet, clock):
    nodes, capture = subnet
    transfer(nodes, clock)
    assert capture.rows("frame.number") == []
