"""Captures, views and records that fail: the device continues, and what they say has a gap."""

import json
import logging

import pytest
from helpers.device.captured import MACS, NAMES, plugged_functions

from emu.device.faults.event import Event
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.objects.memory.mkey import Mkey
from emu.device.port.eth.frame import Frame
from emu.driver.command.words import pack64
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.server.net.eth.segments import Segments
from emu.server.net.ib.local import LocalFabric
from emu.server.net.pcap import blocks, capture
from emu.server.net.pcap.faults import CaptureInterface
from emu.server.service import views
from emu.server.service.pcap import Capture, PcapOptions
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode


def fail(*_given, **_named):
    raise IndexError("a defect of an observer")


@pytest.fixture
def expected(caplog):
    """Takes the tracebacks that a test has provoked; what was logged with them."""

    def take():
        found = [record for record in caplog.records if record.levelno >= logging.ERROR]
        said = [record.getMessage() for record in found]
        assert all(record.exc_info[0] is IndexError for record in found)
        caplog.clear()
        return said

    return take


# -- captures


@pytest.fixture
def ethernet(clock):
    """Two functions with Ethernet ports on one segment, and their cables."""
    return plugged_functions(clock, Segments(clock))


@pytest.fixture
def captured(tmp_path, clock, ethernet):
    functions, cables = ethernet
    return Capture(
        PcapOptions(tmp_path / "it.pcapng"), clock, functions, cables, LocalFabric(clock), NAMES
    )


def frame():
    source, destination = (mac.to_bytes(6, "big") for mac in MACS)
    return Frame((destination + source + b"\x88\xb5").ljust(60, b"\0"))


@pytest.mark.parametrize(
    ("owner", "name", "place"),
    [
        (blocks, "packet", "frame"),
        (CaptureInterface, "packet", "frame"),
        (capture._Discarded, "items", "counters"),
    ],
)
def test_a_frame_passes_a_capture_that_fails(
    monkeypatch, tmp_path, captured, ethernet, expected, owner, name, place
):
    """Once for each interface in the log; an entry is where the packet would be."""
    functions, cables = ethernet
    monkeypatch.setattr(owner, name, fail)
    for _ in range(3):
        functions[0].hca.eth_wire.transmit(functions[0].hca, frame())
    assert cables[1].sent == 3
    assert not any(function.hca.health.has_failed for function in functions)
    said = expected()
    assert f"capture: internal error at {place}: the device continues" in said
    assert len(said) <= 2 * len(functions)
    monkeypatch.undo()
    captured.close()
    found = (tmp_path / "it.pcapng").read_bytes()
    assert b"a frame could not be read" in found


def test_what_carries_a_frame_fails_as_without_a_capture(monkeypatch, captured, ethernet, expected):
    """The function that it arrives at stops, and no other."""
    functions, _ = ethernet
    functions[1].hca.switch.receive = fail
    functions[0].hca.eth_wire.transmit(functions[0].hca, frame())
    assert [function.hca.health.has_failed for function in functions] == [False, True]
    (said,) = expected()
    assert "the function stops" in said
    captured.close()


def test_packets_pass_a_capture_that_fails(monkeypatch, tmp_path, clock, model, expected):
    """InfiniBand's."""
    wire = LocalFabric(clock)
    nodes = two_nodes(model, clock, wire)
    functions = [node.function for node in nodes]
    options = PcapOptions(tmp_path / "it.pcapng", messages=True)
    captured = Capture(options, clock, functions, [None, None], wire, NAMES)
    monkeypatch.setattr(blocks, "erf", fail)
    left, right = (node.queue_pair() for node in nodes)
    connect(left, right)
    right.post_recv()
    left.send()
    for _ in range(3):
        for node in nodes:
            node.settle()
            clock.advance(1_000_000)
    assert [len(qp.cq.drain()) for qp in (left, right)] == [1, 1]
    said = expected()
    assert said == ["capture: internal error at packet: the device continues"] * 2
    captured.close()
    assert b"a packet could not be read" in (tmp_path / "it.pcapng").read_bytes()


# -- records of faults


PLAN = """[[rule]]
point = "cmd"
action = "fail"
match = {op = "ALLOC_PD"}
"""


@pytest.mark.parametrize("failing", ["summary", "sink"])
def test_a_fault_fires_whose_record_fails(monkeypatch, function, driver, expected, failing):
    fired = []
    injector = Injector(function, sink=fail if failing == "sink" else fired.append)
    function.use_faults(injector)
    injector.load(load(PLAN))
    if failing == "summary":
        monkeypatch.setattr(Event, "summary", fail)
    for _ in range(2):
        assert driver.command(Op.ALLOC_PD).status
    assert len(expected()) == 1
    assert [one.event for one in fired] in ([], [{"error": "could not be read"}] * 2)
    assert not function.hca.health.internal_errors


# -- views


def shown(function, kind):
    return json.loads(b"".join(views.objects(function, kind, 100)))[kind]


@pytest.fixture
def keys(driver):
    """A function's keys, of which there is one more than before."""
    driver.create_mkey(driver.alloc_pd())


@pytest.mark.usefixtures("keys")
@pytest.mark.pure("it replaces a method of a compiled class by hand")
def test_an_object_that_cannot_be_read(monkeypatch, function, expected):
    """The view has what every object has, and all others."""
    monkeypatch.setattr(views, "_errors", type(views._errors)("objects"))
    monkeypatch.setattr(Mkey, "about", fail)
    table = shown(function, "mkey")
    assert table["total"] == len(table["items"]) > 0
    for item in table["items"]:
        assert set(item) == {"handle", "refs", "error"}
    assert expected() == ["objects: internal error at mkey: the device continues"]


@pytest.mark.parametrize("mode", [AccessMode.KLMS, AccessMode.KSM])
def test_a_list_of_keys_that_lead_nowhere(function, driver, mode):
    """No more of it is looked at than the view has time for."""
    looked_at = views.MAX_ENTRIES
    count = 3 * looked_at
    context = {
        "pd": driver.alloc_pd(), "access_mode_1_0": mode & 3, "qpn": 0xFFFFFF,
        "len": count << 12, "translations_octword_size": count, "log_page_size": 12,
    }  # fmt: skip
    entries = pack64([0, 0]) * (count - 1) + pack64([0x1000 << 32 | 0x1234, 0])
    driver.must(
        Op.CREATE_MKEY, memory_key_mkey_entry=context, extra=entries,
        translations_octword_actual_size=count,
    )  # fmt: skip
    item = max(shown(function, "mkey")["items"], key=lambda item: item["handle"])
    assert item["below"] == []
    (key,) = [one for one in function.hca.mkeys if one.handle == item["handle"]]
    assert len([*key.below(looked_at)]) <= looked_at
