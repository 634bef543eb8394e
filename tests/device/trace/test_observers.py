"""Tracers do not disturb what they observe: whatever a guest posts, whatever goes wrong in one."""

import logging
from types import SimpleNamespace

import pytest
from helpers.random.examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from emu.device.cmdif.request import CommandRequest
from emu.device.errors import CmdError
from emu.device.function.function import Function
from emu.device.function.tracer import ContainedTracer
from emu.device.objects.queues.send_queue import Wqe
from emu.device.trace import decode, work
from emu.device.trace.event import UNDECODED, TraceEvent, TracePoint
from emu.device.trace.recorder import EventList, Recorder
from emu.device.trace.text import TextForm, body
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from firmware_cmds import TABLE
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import CTRL, DS, EXTENDED_ATOMIC, WQEBB

pytestmark = pytest.mark.hostile

POINTS = [point for point in TracePoint if point not in (TracePoint.LOG, TracePoint.CALL)]
ANY_OPCODE = st.sampled_from([*Opcode]) | st.integers(0, 255)
REASON = "log_cq_size above log_max_cq_sz"
ANY_EVENT = st.sampled_from([*EventType])


@pytest.fixture
def events():
    return EventList()


@pytest.fixture
def tracer(events, clock):
    return Recorder(events, clock)


@pytest.fixture
def function(model, memory, irqs, clock, options, wire, tracer):
    return Function(model, options, TABLE, memory, irqs, clock, wire, tracer)


def assert_forms(event):
    """Both forms are one line each, and the stored one reads back."""
    line = event.to_json()
    assert line.isascii()
    assert "\n" not in line
    assert TraceEvent.from_json(line) == event
    text = TextForm()(event)
    assert text.isascii()
    assert text.isprintable()


# -- requests of nonsense


@pytest.mark.parametrize("ds", [0, 63])
@pytest.mark.parametrize("opcode", [*Opcode, 0x7F], ids=str)
def test_a_request_without_a_length_fails_alone(node, qps, function, events, opcode, ds):
    """The queue pair fails, the function goes on, and the trace has the request."""
    qps[0].put(qps[0].sq_offset, CTRL.pack(opcode, qps[0].qpn << 8 | ds, 8, 0))
    qps[0].sent += 1
    node.memory.write(qps[0].record + 4, (1).to_bytes(4, "big"))
    qps[0].ring()
    node.settle()
    (failed,) = qps[0].cq.drain()
    assert failed.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR
    (request,) = events.of(TracePoint.WQE)
    assert request.fields["ds"] == 0
    assert "error" not in request.fields
    assert_forms(request)
    assert not function.hca.health.has_failed
    connect(*(fresh := (node.queue_pair(), node.queue_pair())))
    fresh[1].post_recv()
    fresh[0].send()
    node.settle()
    assert len(fresh[0].cq.drain()) == 1


@given(
    opcode=ANY_OPCODE,
    opmod=st.sampled_from([0, EXTENDED_ATOMIC, 255]),
    ds=st.integers(0, 63),
    rest=st.binary(max_size=1008),
    is_whole=st.booleans(),
    service=st.sampled_from([*QpType, None]),
    mode=st.sampled_from([*AccessMode, None]),
    is_ipoib=st.booleans(),
)
@settings(max_examples=examples(400))
@example(Opcode.SEND, 0, 0, b"", True, QpType.RC, None, False)
@example(Opcode.UMR, 0, 63, b"\xff" * 1008, True, QpType.RC, AccessMode.MTT, False)
def test_any_request_is_decoded(opcode, opmod, ds, rest, is_whole, service, mode, is_ipoib):
    buf = CTRL.pack(opmod << 24 | opcode, ds, 0xFF, 0x12345678) + rest
    size = -(-ds * DS // WQEBB) * WQEBB if is_whole else -(-len(buf) // WQEBB) * WQEBB
    wqe = Wqe().parse(buf[: max(size, WQEBB)].ljust(max(size, WQEBB), b"\0"))
    shown = work.request(wqe, service, mode, is_ipoib=is_ipoib)
    assert_forms(TraceEvent(0, 0, TracePoint.WQE, shown))


# -- commands of nonsense


@given(
    op=st.sampled_from([*TABLE, 0x999]),
    rest=st.binary(max_size=64) | st.binary(min_size=400, max_size=4200),
    answer=st.binary(max_size=64) | st.binary(min_size=400, max_size=4200),
    status=st.sampled_from([None, *Status]),
)
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_commands_and_answers_of_any_length(function, clock, op, rest, answer, status):
    """As of a command that a fault rule has changed: its answer is any bytes."""
    events = EventList()
    data = bytearray(int(op).to_bytes(2, "big") + rest.ljust(6, b"\0"))
    request = CommandRequest(3, 0, None, data, bytearray(answer), [], [])
    error = None if status in (None, Status.OK) else CmdError(status, REASON)
    Recorder(events, clock).on_command(function.hca, request, TABLE.get(op))(error)
    assert_forms(events[0])


@given(event=ANY_EVENT, sub_type=st.integers(0, 255), data=st.binary(max_size=28))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_of_any_data(clock, event, sub_type, data):
    events = EventList()
    Recorder(events, clock).eqe(1, event, sub_type, data)
    assert_forms(events[0])


@given(
    entry=st.integers(0, 1).flatmap(lambda is_long: st.binary(
        min_size=63 + 64 * is_long, max_size=63 + 64 * is_long)),
    op_own=st.integers(0, 255),
)  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_completions_of_any_data(clock, entry, op_own):
    events = EventList()
    Recorder(events, clock).cqe(1, entry, op_own)
    assert_forms(events[0])


@given(offset=st.integers(0, 0x2000000), data=st.binary(max_size=100))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_accesses_anywhere(clock, offset, data):
    events = EventList()
    Recorder(events, clock).mmio("write", offset, data)
    assert_forms(events[0])


# -- a tracer with a defect


class Defective(Recorder):
    """A recorder that cannot decode some trace points; ``tells``: it can say so."""

    def __init__(self, sink, clock, points, *, tells=True):
        super().__init__(sink, clock)
        self._points, self._tells = points, tells

    def _record(self, point, fields):
        if point in self._points and ("error" not in fields or not self._tells):
            raise IndexError("a defect of this tracer")
        super()._record(point, fields)


@pytest.fixture
def expected(caplog):
    """Takes the tracebacks that a test has provoked; their places."""

    def take():
        found = [
            (record.getMessage(), record.exc_info[0])
            for record in caplog.records
            if record.levelno >= logging.ERROR
        ]
        caplog.clear()
        assert {kind for _, kind in found} <= {IndexError}
        return [text for text, _ in found]

    return take


@pytest.fixture
def started(model, memory, irqs, clock, options, wire):
    """Makes a traced function and brings it up."""

    def start(tracer):
        function = Function(model, options, TABLE, memory, irqs, clock, wire, tracer)
        return Node(function, Driver(FunctionBar(function), memory, irqs).probe())

    return start


def traffic(node):
    """Something of each trace point, but page faults."""
    pair = node.queue_pair(), node.queue_pair()
    connect(*pair)
    for _ in range(3):
        pair[0].cq.arm()
        pair[1].post_recv()
        pair[0].send()
        node.settle()
    assert [len(qp.cq.drain()) for qp in pair] == [3, 3]
    pair[0].send()
    node.settle()  # no receive WQE


@pytest.mark.parametrize("point", [p for p in POINTS if p is not TracePoint.FAULT], ids=str)
def test_a_point_that_cannot_be_decoded(started, clock, expected, point):
    """The device goes on, the log has it once, and each entry has the raw bytes."""
    events = EventList()
    node = started(Defective(events, clock, [point]))
    traffic(node)
    assert expected() == [f"trace: internal error at {point}: the device continues"]
    told = events.of(point)
    assert told
    for event in told:
        assert event.fields["error"] == UNDECODED
        assert_forms(event)
        assert body(event).startswith("could not be decoded: ")
    assert not node.function.hca.health.internal_errors
    (line,) = [one for one in node.function.tracer.summary() if UNDECODED in one]
    assert line == f"{len(told)} events {UNDECODED}"


def test_what_is_told_of_a_request(started, clock, expected):
    events = EventList()
    node = started(Defective(events, clock, [TracePoint.WQE]))
    traffic(node)
    expected()
    fields = events.of(TracePoint.WQE)[0].fields
    qpn, raw = fields["qpn"], bytes.fromhex(fields["raw"][2:])
    assert (fields["opcode"], fields["ds"], len(raw)) == (Opcode.SEND, 1, WQEBB)
    assert CTRL.unpack_from(raw)[1] == qpn << 8 | 1


def test_what_is_told_of_a_command(started, clock, expected):
    events = EventList()
    node = started(Defective(events, clock, [TracePoint.CMD]))
    node.driver.command(Op.DEALLOC_PD, pd=0x123)
    expected()
    fields = events.of(TracePoint.CMD)[-1].fields
    assert (fields["op"], fields["status"]) == ("DEALLOC_PD", "BAD_RES_STATE_ERR")
    assert bytes.fromhex(fields["raw"][2:])[8:12] == (0x123).to_bytes(4, "big")


def test_a_tracer_that_can_tell_nothing(started, clock, expected):
    """A tracer fails at each of its calls, and then again."""
    node = started(Defective(EventList(), clock, POINTS, tells=False))
    traffic(node)
    found = expected()
    assert len(found) == len(set(found)) == 2 * (len(POINTS) - 1)
    assert not node.function.hca.health.internal_errors


class Raises:
    """Implements ``Tracer`` by exceptions."""

    def __getattr__(self, name):
        def fail(*_given):
            raise IndexError(name)

        return fail


@pytest.mark.pure("a fake in the place of objects of ours")
def test_every_call_of_a_tracer_is_contained(expected):
    """None is missing: what the protocol has, the containment has."""
    tracer = ContainedTracer(Raises())
    request = CommandRequest(1, 0, None, bytearray(16), bytearray(16), [], [])
    fault = SimpleNamespace(token=1)
    entry = SimpleNamespace(**{"in": bytes(16)})
    status = SimpleNamespace(status=Status.OK)
    tracer.power_on("connectx6", 1 << 20)
    tracer.mmio("read", 0, bytes(4))
    tracer.eqe(1, EventType.CMD, 0, bytes(28))
    tracer.irq(0, 1)
    tracer.wqe(None, SimpleNamespace(handle=1), Wqe().parse(bytes(64)))
    tracer.cqe(1, bytes(63), 1)
    tracer.nak(1, "CHK_RKEY", "no such key")
    tracer.page_fault(fault, "resumed", 1)
    tracer.undelivered(1, entry, status)
    tracer.undecoded("wqe", {}, b"")
    tracer.on_command(None, request, None)(None)
    assert [*tracer.summary()] == ["22 events could not be decoded"]
    assert len(expected()) == 2 * len(POINTS) + 1


# -- how much is looked at


class Counted(bytearray):
    """Counts the bytes that are copied out of it."""

    copied = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        Counted.copied += len(found) if isinstance(found, bytearray) else 1
        return found

    def __bytes__(self):
        Counted.copied += len(self)
        return bytes(memoryview(self))


LONG = 8 << 20
MAX_COPIED = 1 << 16


@pytest.mark.parametrize("filled", [0, 0xA5])
@pytest.mark.parametrize("op", sorted(TABLE), ids=lambda op: Op(op).name)
def test_little_of_a_long_command_is_copied(function, clock, op, filled):
    """As much as is shown, however long its lists are; the answer's as well."""
    events, command = EventList(), TABLE[op]
    data = Counted(bytes([filled]) * LONG)
    data[:8] = int(op).to_bytes(2, "big") + bytes(6)
    answer = Counted(bytes([filled]) * LONG)
    Counted.copied = 0
    request = CommandRequest(0, 0, None, data, answer, [], [])
    Recorder(events, clock).on_command(function.hca, request, command)(None)
    assert Counted.copied < MAX_COPIED
    assert len(events[0].to_json()) < MAX_COPIED


def test_no_structure_is_longer_than_what_is_read():
    """Otherwise what is in a field that the layout leaves open would not be decoded."""
    sizes = [max(one.layout_in.size, one.layout_out.size) for one in TABLE.values()]
    assert max(sizes) <= decode.MAX_READ
