"""The trace of a function at work: what each point says, and that nothing suffers from it."""

import errno
import io
import json

import pytest
from helpers.random.examples import examples
from helpers.structures import structure
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import emu
import firmware_cmds
from emu.device.cmdif.reasons import collect
from emu.device.cmdif.registry import COMMANDS
from emu.device.errors import CmdError, syndrome_of
from emu.device.function.function import Function
from emu.device.models import LINKS
from emu.device.models.virtual_functions import virtual_function_of
from emu.device.rounds.budget import Budget
from emu.device.state.hca import HcaOptions
from emu.device.trace import decode, mmio
from emu.device.trace.event import MAX_ITEMS, TraceEvent, TracePoint
from emu.device.trace.recorder import EventList, LineSink, Recorder
from emu.device.trace.text import TextForm, body
from firmware_cmds import TABLE
from layouts.cmd import cmd_layout
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeFormat, CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType, PortChange
from layouts.enums.regs import RegId
from layouts.enums.wqe import Opcode
from layouts.prm import array, bits, octets
from layouts.rings.cqe import CQE, ERR_CQE, cqe64

BOOT_PAGES = 40
NO_PD = "no pd to change or destroy"


@pytest.fixture
def options():
    return HcaOptions(guid=0x0002_C903_00AB_CD01, boot_pages=BOOT_PAGES)


@pytest.fixture
def events():
    """What the function has told; pytest shows it with a test that fails."""
    found = EventList()
    yield found
    print(found)  # noqa: T201


@pytest.fixture
def tracer(events, clock):
    return Recorder(events, clock, 3)


@pytest.fixture
def function(model, memory, irqs, clock, options, wire, tracer):
    return Function(model, options, TABLE, memory, irqs, clock, wire, tracer)


@pytest.fixture
def lines(driver, events):
    """Text of the events from now on, for one point."""
    events.clear()
    return lambda point: [body(event) for event in events.of(point)]


def commands(events):
    return {event.fields["op"]: event.fields for event in events.of(TracePoint.CMD)}


class TestCommands:
    def test_probe_in_order(self, driver, events):
        assert events[0].point == TracePoint.RESET
        assert events[0].fields == {"model": "connectx6"}
        assert [event.fields["op"] for event in events.of(TracePoint.CMD)] == [
            "ENABLE_HCA", "QUERY_ISSI", "SET_ISSI", "QUERY_PAGES", "MANAGE_PAGES", "ACCESS_REG",
            "QUERY_HCA_CAP", "SET_HCA_CAP", "QUERY_HCA_CAP", "QUERY_HCA_CAP", "SET_HCA_CAP",
            "QUERY_PAGES", "MANAGE_PAGES", "INIT_HCA", "SET_DRIVER_VERSION", "QUERY_ADAPTER",
            "ALLOC_UAR",
        ]  # fmt: skip
        assert {event.function for event in events} == {3}
        assert {event.fields["status"] for event in events.of(TracePoint.CMD)} == {"OK"}

    def test_context_and_page_list(self, driver, lines):
        eqn = driver.create_eq(log_size=7, events=[EventType.CMD], vector=5)
        pages = ",".join(f"{address:#x}" for address in driver.eqs[eqn].addresses)
        assert lines(TracePoint.CMD) == [
            "slot 0 CREATE_EQ -> OK 0.0us "
            f" eq_context_entry{{log_eq_size=7 uar_page={driver.uar} intr=5}}"
            f" event_bitmask=[0x400,0,0,0] pas=[{pages}] | eq_number={eqn}"
        ]

    def test_long_list_is_its_length_and_its_beginning(self, driver, events):
        given = commands(events)["MANAGE_PAGES"]["in"]
        assert given["input_num_entries"] == BOOT_PAGES > MAX_ITEMS
        assert given["pas"]["count"] == BOOT_PAGES
        assert len(given["pas"]["first"]) == 4
        assert all(page % 4096 == 0 for page in given["pas"]["first"])

    def test_duration_is_the_handlers(self, driver, clock, events, monkeypatch):
        add = driver.bar.function.hca.pds.add

        def slow(pd):
            clock.ns += 41_200
            return add(pd)

        monkeypatch.setattr(driver.bar.function.hca.pds, "add", slow)
        driver.alloc_pd()
        assert events[-1].fields["duration_us"] == 41.2
        assert events[-1].t_ns == clock.ns

    def test_refused_with_status_syndrome_and_reason(self, driver, lines):
        driver.command(Op.DEALLOC_PD, pd=0x77)
        assert lines(TracePoint.CMD) == [
            f"slot 0 DEALLOC_PD -> BAD_RES_STATE_ERR 0.0us syndrome {syndrome_of(NO_PD):#x}:"
            f" {NO_PD} (0x77)  pd=0x77"
        ]

    def test_refused_has_no_output(self, driver, events):
        driver.command(Op.DEALLOC_PD, pd=0x77)
        assert "out" not in events[-1].fields
        assert events[-1].is_refusal

    def test_unknown_opcode_shows_its_bytes(self, driver, lines):
        driver.execute(bytes.fromhex("0999000000000000deadbeef00000000"), 16)
        (line,) = lines(TracePoint.CMD)
        assert line.startswith("slot 0 opcode 0x999 -> BAD_OP_ERR 0.0us syndrome ")
        assert line.endswith(" data=0x0999000000000000deadbeef00000000")

    def test_input_shorter_than_its_layout_shows_its_bytes(self, driver, events):
        driver.execute(int(Op.CREATE_CQ).to_bytes(2, "big") + bytes(14), 16)
        assert events[-1].fields["status"] == "BAD_INP_LEN_ERR"
        assert events[-1].fields["in"] == {"data": "0x0400" + 28 * "0"}

    def test_not_delivered(self, driver, lines):
        driver.submit(int(Op.ALLOC_PD).to_bytes(2, "big") + bytes(14), 16)
        entry = cmd_layout.view(bytearray(driver.memory.read(driver.queue, 64)))
        entry.inlen = 4
        driver.memory.write(driver.queue, entry.buf)
        driver.ring(1)
        assert lines(TracePoint.CMD) == [
            "slot 0 ALLOC_PD -> not delivered, IN_LENGTH_ERR: input of 4 bytes  data=0x0800"
            + 28 * "0"
        ]

    def test_internal_error_is_a_refusal(self, driver, events, monkeypatch, caplog):
        def explode(*_):
            raise RuntimeError("bug")

        monkeypatch.setattr(driver.bar.function.hca.pds, "add", explode)
        driver.command(Op.ALLOC_PD)
        assert events[-1].fields["status"] == "INT_ERR"
        caplog.clear()


class TestOpenFields:
    def test_capabilities_by_their_group(self, driver, events):
        queries = [
            found for found in events.of(TracePoint.CMD) if found.fields["op"] == "QUERY_HCA_CAP"
        ]
        assert queries[-1].fields["out"]["odp_cap"]["transport_page_fault_scheme_cap"]
        shown = queries[0].fields["out"]
        assert shown["cmd_hca_cap"]["log_max_qp"] == 17
        assert 0 not in shown["cmd_hca_cap"].values()
        assert "capability" not in shown

    def test_set_capabilities_shows_what_changes(self, cold, events):
        cold.attach()
        cold.must(Op.ENABLE_HCA)
        page = bytearray(cold.must(Op.QUERY_HCA_CAP, op_mod=1).capability)
        general = COMMANDS[Op.QUERY_HCA_CAP].opened.layout(
            COMMANDS[Op.QUERY_HCA_CAP].layout_in.new(op_mod=1)
        )
        view = general.view(page)
        view.log_max_qp, view.xrc = 9, 0
        cold.must(Op.SET_HCA_CAP, capability=bytes(page))
        assert events[-1].fields["in"] == {"cmd_hca_cap": {"log_max_qp": 9, "xrc": 0}}
        cold.must(Op.SET_HCA_CAP, capability=bytes(page))
        assert events[-1].fields["in"] == {"cmd_hca_cap": {}}

    def test_capability_group_that_is_not_there(self, driver, events):
        driver.command(Op.SET_HCA_CAP, op_mod=0x3C << 1, capability=b"\x01" + bytes(4095))
        assert events[-1].is_refusal
        assert events[-1].fields["in"]["capability"].endswith("... 4096 bytes")

    @pytest.mark.parametrize("limits", [{"pg": 0}])
    def test_capability_group_whose_gate_is_closed(self, cold, events):
        cold.attach()
        cold.must(Op.ENABLE_HCA)
        cold.command(Op.SET_HCA_CAP, op_mod=2 << 1, capability=bytes(511) + b"\x80" + bytes(3584))
        assert events[-1].is_refusal

    def test_registers_by_their_id(self, driver, lines):
        driver.write_register(RegId.NODE_DESC, b"a host".ljust(64, b"\0"))
        driver.read_register(RegId.PTYS, COMMANDS[Op.ACCESS_REG].opened.layout(
            COMMANDS[Op.ACCESS_REG].layout_in.new(register_id=RegId.PTYS)
        ), local_port=1, proto_mask=1)  # fmt: skip
        wrote, read = lines(TracePoint.CMD)
        assert "register_id=0x6001 node_desc_reg{desc=a host} | node_desc_reg{" in wrote
        assert "op_mod=1 register_id=0x5004 ptys_reg{local_port=1 proto_mask=1} | " in read
        assert "ib_link_width_oper=" in read

    def test_register_that_is_not_modelled_or_too_short(self, driver, events):
        driver.write_register(RegId.FPGA_CAP, b"\x01" + bytes(15))
        assert events[-1].fields["in"]["register_data"] == [0x01000000, 0, 0, 0]
        driver.write_register(RegId.PTYS, b"\x01" + bytes(7))
        assert events[-1].fields["in"]["register_data"] == [0x01000000, 0]


class TestChanges:
    """What a field that replaces a value shows: only what is different, zero or not."""

    NESTED = structure("nested", ("a", bits(8)), ("b", bits(8)))
    WHOLE = structure(
        "whole", ("nested", NESTED), ("words", array(2, bits(16))), ("name", octets(4))
    )
    INPUT = structure("input", ("opcode", bits(16)), ("page", octets(12)))
    BEFORE = bytes.fromhex("0102 0003 0004 61626364")

    @pytest.mark.parametrize(
        ("now", "shown"),
        [
            ("0102 0003 0004 61626364", {}),
            ("0002 0003 0004 61626364", {"nested": {"a": 0}}),
            ("0102 0000 0004 61626364", {"words": [0, 4]}),
            ("0102 0003 0004 00000000", {"name": ""}),
        ],
    )
    def test_only_differences(self, now, shown):
        data = bytes(2) + bytes.fromhex(now) + b"\xff\xff"
        inner = decode.Inner("page", self.WHOLE, self.BEFORE)
        assert decode.structure(self.INPUT, data, inner) == {"whole": shown}


class TestEventsAndInterrupts:
    def test_command_event(self, driver, lines):
        driver.use_events(vector=4)
        driver.alloc_pd()
        assert lines(TracePoint.EQE) == ["eqn 1 CMD vector=1"]
        assert lines(TracePoint.IRQ) == ["vector 4 eqn 1"]

    def test_order_of_a_round(self, driver, events):
        driver.use_events()
        events.clear()
        driver.alloc_pd()
        assert [event.point for event in events] == ["mmio", "cmd", "eqe", "irq"]

    @pytest.mark.parametrize(
        ("event", "sub_type", "data", "line"),
        [
            (EventType.COMP, 0, bytes(24) + b"\0\0\0\x42", "COMP cqn=0x42"),
            (EventType.PORT_CHANGE, PortChange.ACTIVE, bytes(8) + b"\x10",
             "PORT_CHANGE ACTIVE port{port_num=1}"),
            (EventType.PORT_CHANGE, 99, b"", "PORT_CHANGE 99"),
            (EventType.PAGE_FAULT, 1, b"\0\0\0\x10\0\0\x12\0", "PAGE_FAULT RDMA"
             " bytes_committed=0x10 r_key=0x1200"),
            (EventType.PAGE_FAULT, 9, b"\x01", "PAGE_FAULT 9 data=0x01"),
            (EventType.WQ_ACCESS_ERROR, 0, bytes(24) + b"\0\0\0\x40",
             "WQ_ACCESS_ERROR qp_srq_n=0x40"),
            (EventType.GENERAL_EVENT, 5, b"\xff\0", "GENERAL_EVENT 5 data=0xff00"),
        ],
    )  # fmt: skip
    def test_data_by_event_type(self, tracer, events, event, sub_type, data, line):
        tracer.eqe(0x12, event, sub_type, data)
        assert body(events[-1]) == f"eqn 0x12 {line}"


class TestCompletions:
    def test_success(self, tracer, events):
        entry = CQE.pack(0, 0, 0, 0, 0, 4096, 0x1234, Opcode.RDMA_READ << 24 | 0x40, 7)
        tracer.cqe(0x12, entry, CqeOpcode.REQ << 4 | 1)
        assert body(events[-1]) == (
            "cqn 0x12 qpn 0x40 REQ byte_cnt=0x1000 timestamp_l=0x1234 sop_drop_qpn=0x10000040"
            " wqe_counter=7 op_own=1"
        )

    def test_error_with_its_syndrome(self, tracer, events):
        entry = ERR_CQE.pack(0, 149, 0x10, 0x88, CqeSyndrome.REMOTE_ACCESS_ERR, 0x08000040, 7)
        tracer.cqe(0x12, entry, CqeOpcode.REQ_ERR << 4)
        assert body(events[-1]).startswith(
            "cqn 0x12 qpn 0x40 REQ_ERR REMOTE_ACCESS_ERR hw_err_synd=0x95 hw_synd_type=0x10 vendor"
        )
        assert events[-1].fields["data"]["s_wqe_opcode_qpn"] == 0x08000040

    def test_compressed_packet(self, tracer, events):
        entry = cqe64.new(hds_ip_ext=7, byte_cnt=60, sop_drop_qpn=5)
        tracer.cqe(0x12, bytes(entry)[:63], CqeOpcode.RESP_SEND << 4 | CqeFormat.COMPRESSED << 2)
        assert body(events[-1]) == (
            "cqn 0x12 flow_tag 5 RESP_SEND compressed hds_ip_ext=7 byte_cnt=0x3c sop_drop_qpn=5"
            " op_own=0x2c"
        )

    @given(entry=st.binary(min_size=63, max_size=63), op_own=st.integers(0, 255))
    def test_any_entry_gives_a_line(self, entry, op_own):
        events = EventList()
        Recorder(events, _Clock()).cqe(1, entry, op_own)
        assert_forms(events[0])


class TestRegisters:
    @pytest.mark.parametrize(
        ("offset", "length", "line"),
        [
            (0x0000, 4, "read  fw_rev fw_rev_minor=43 fw_rev_major=20"),
            (0x0014, 4, "read  cmdq_addr_l_sz"),
            (0x01FC, 4, "read  initializing = 0"),
            (0x1010, 4, "read  health_counter = 101"),
            (0x1011, 1, "read  health_counter = 0"),
            (0x2074, 4, "read  vector 7 msix_table.message_upper_address = 0"),
            (0x207C, 4, "read  vector 7 msix_table.vector_control = 1"),
            (0x3000, 8, "read  msix_pba = 0"),
            (0x8800, 4, "read  uar 8 SEND_DB = 0"),
            (0x0300, 4, "read  at 0x300 = 0"),
            (0x0000, 16, "read  fw_rev/cmdif_rev_fw_sub = 0x"),
        ],
    )
    def test_reads(self, function, lines, offset, length, line):
        function.bar_read(0, offset, length)
        assert lines(TracePoint.MMIO)[0].startswith(line)

    @pytest.mark.parametrize(
        ("offset", "data", "line"),
        [
            (0x0018, "00000009", "write cmd_dbell = 9"),
            (0x200C, "01000000", "write vector 0 msix_table.vector_control = 1"),
            (0x8040, "05000007", "write uar 8 EQ_ARM eqn=5 ci=7"),
            (0x8048, "05000007", "write uar 8 EQ_CI eqn=5 ci=7"),
            (0x8020, "3100000500000012", "write uar 8 CQ_ARM sn=3 solicited_only=1 ci=5 cqn=0x12"),
            (0x8020, "31000005", "write uar 8 CQ_ARM = 0x31000005"),
            (0x8024, "00000012", "write uar 8 CQ_ARM = 0x12"),
            (0x8804, "00004004", "write uar 8 SEND_DB = 0x4004"),
            (0x8808, "0000000800000001", "write uar 8 BF = 0x800000001"),
            (0x1FE0020, "0000000800000001", "write memic = 0x800000001"),
            (0x8800, "000003 0a 000040 04",
             "write uar 8 SEND_DB opmod=0 wqe_index=3 opcode=0xa qpn=0x40 ds=4"),
            (0x8A00, "000003 0a 000040 04" + 56 * "00",
             "write uar 8 SEND_DB opmod=0 wqe_index=3 opcode=0xa qpn=0x40 ds=4"),
            (0x8010, "00000001", "write uar 8 at 0x8010 = 1"),
        ],
    )  # fmt: skip
    def test_writes(self, function, lines, offset, data, line):
        function.bar_write(0, offset, bytes.fromhex(data))
        assert lines(TracePoint.MMIO) == [line]

    def test_device_memory_is_at_the_end_of_the_bar_if_there_is_any(self):
        pf, vf, small = (
            mmio.describe(0xE_0020, bytes(4), model.uar_end)
            for model in (
                LINKS["connectx6"][PortType.ETH],
                virtual_function_of(LINKS["connectx4lx"][PortType.ETH]),
                virtual_function_of(LINKS["connectx6"][PortType.ETH]),
            )
        )
        assert (pf.get("uar"), vf.get("uar"), small.get("register")) == (0xE0, 0xE0, "memic")

    def test_reset_is_seen(self, function, lines):
        function.reset()
        assert lines(TracePoint.RESET) == ["connectx6"]

    @given(offset=st.integers(0, 0x9000), data=st.binary(min_size=1, max_size=80))
    def test_any_access_gives_a_line(self, offset, data):
        events = EventList()
        Recorder(events, _Clock()).mmio("write", offset, data)
        assert_forms(events[0])


class _Clock:
    budget = Budget()

    def now_ns(self):
        return 7


class _Full(io.StringIO):
    """A disk with room for some lines."""

    room = 3

    def write(self, text):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1
        return super().write(text)


class TestSinks:
    def test_a_line_for_each_event(self, clock):
        stream = io.StringIO()
        recorder = Recorder(LineSink(stream, TraceEvent.to_json), clock)
        recorder.irq(4, 1)
        clock.advance(5)
        recorder.irq(5, 2)
        assert list(map(json.loads, stream.getvalue().splitlines())) == [
            {"t_ns": clock.ns - 5, "function": 0, "point": "irq", "vector": 4, "eqn": 1},
            {"t_ns": clock.ns, "function": 0, "point": "irq", "vector": 5, "eqn": 2},
        ]

    def test_text_counts_seconds_from_the_first_line(self, clock):
        stream = io.StringIO()
        recorder = Recorder(LineSink(stream, TextForm()), clock, 2)
        recorder.irq(4, 1)
        clock.advance(1_500_000_999)
        recorder.irq(5, 1)
        assert stream.getvalue().splitlines() == [
            "    0.000000 f2 irq   vector 4 eqn 1",
            "    1.500000 f2 irq   vector 5 eqn 1",
        ]

    def test_failing_stream_ends_the_trace_and_nothing_else(self, clock, caplog):
        stream = _Full()
        sink = LineSink(stream, TraceEvent.to_json)
        first, second = Recorder(sink, clock), Recorder(sink, clock, 1)
        for _ in range(5):
            first.irq(0, 1)
            second.irq(0, 1)
        assert not first
        assert not second
        assert len(stream.getvalue().splitlines()) == 3
        assert [record.getMessage() for record in caplog.records] == [
            "the trace ends here, the device continues: [Errno 28] No space left on device"
        ]


class TestWithFullDisk:
    @pytest.fixture
    def tracer(self, clock):
        return Recorder(LineSink(_Full(), TraceEvent.to_json), clock)

    def test_driver_does_not_notice(self, driver, tracer):
        driver.use_events()
        driver.create_cq(1)
        assert not tracer


def assert_forms(event):
    """Both forms are one line, and the JSON form says all."""
    again = TraceEvent.from_json(event.to_json())
    assert again == event
    for line in (event.to_json(), TextForm()(event)):
        assert line.isascii()
        assert line.isprintable()
        assert len(line) < 64 << 10


@pytest.fixture(scope="module")
def explained():
    return {reason.syndrome for reason in collect(emu, firmware_cmds)}


@settings(
    max_examples=examples(300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    op=st.sampled_from([*COMMANDS, 0x999]),
    rest=st.binary(max_size=64) | st.binary(min_size=400, max_size=4200),
    room=st.sampled_from([0, 16, 600, 4200]),
)
@example(op=Op.SET_HCA_CAP, rest=bytes(14) + b"\xff" * 4096, room=0)
def test_any_command_is_traced_and_its_refusal_explained(driver, events, explained, op, rest, room):
    events.clear()
    data = int(op).to_bytes(2, "big") + rest.ljust(14, b"\0")
    size = COMMANDS[op].layout_out.size if op in COMMANDS else 16
    _, raw = driver.execute(data, size + room)
    (event,) = events.of(TracePoint.CMD)
    assert_forms(event)
    assert Status[event.fields["status"]] == raw[0]
    if event.is_refusal:
        syndrome = int.from_bytes(raw[4:8], "big")
        assert event.fields["syndrome"] == syndrome == syndrome_of(event.fields["reason"])
        assert syndrome in explained
    if op == Op.TEARDOWN_HCA and not event.is_refusal:
        driver.must(Op.INIT_HCA)


def test_an_error_without_detail(tracer, driver, events):
    done = tracer.on_command(driver.bar.function.hca, _request(), None)
    done(CmdError(Status.LIM_ERR, "too much"))
    assert body(events[-1]).endswith(f"syndrome {syndrome_of('too much'):#x}: too much")


def _request():
    from emu.device.cmdif.request import CommandRequest

    return CommandRequest(0, 0, bytearray(64), bytearray(16), bytearray(16), [], [])
