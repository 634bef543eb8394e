"""The clock in both formats of time stamps, and pulses on its pins (core/lib/clock.c)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.adapter.real_time import RealTime, from_stamp
from emu.device.objects.pins import EventMode, PinMode
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.rings import rq_fields, sq_fields
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.world.cable import arrive
from emu.driver.world.tap_wire import TapWire
from emu.server.service import devicespec
from emu.server.service.devicespec import DeviceSpecError
from firmware_cmds.regs.reg import READ
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType
from layouts.enums.regs import RegId
from layouts.function.caps import cmd_hca_cap, cmd_hca_cap_2
from layouts.function.iseg import init_seg
from layouts.regs import clock_regs, port_regs
from layouts.rings.cqe import cqe64
from layouts.rings.eqe import eqe_pps

SECOND = 1_000_000_000
SET_TIME, ADJUST_TIME, ADJUST_FREQUENCY = 1, 2, 3
REAL = "connectx6dx,real_time=1,pps=1"
FREE = "connectx6dx,pps=1"
ENABLE, PATTERN, MODE, TIME_STAMP, PERIOD, DURATION = 0, 2, 3, 4, 9, 10
RISING, FALLING = 0, 1
FRAME = EthPacket(payload=bytes(100)).frame()


@pytest.fixture(params=[REAL])
def spec(request):
    return request.param


@pytest.fixture
def base_model(spec):
    return devicespec.parse(spec).model


@pytest.fixture
def set_clock(driver):
    def write(operation, **fields):
        view = clock_regs.mtutc_reg.new(operation=operation, **fields)
        return driver.write_register(RegId.MTUTC, bytes(view)).status

    return write


@pytest.fixture
def time_of_day(function):
    """As the driver reads it, from the initialization segment."""

    def read():
        data = function.bar0.read(0x1040, 8)
        return from_stamp(int.from_bytes(data, "big"))

    return read


# -- the clock alone


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("pass"), st.integers(0, 1 << 50)),
            st.tuples(st.just("turn"), st.integers(-(1 << 31), 1 << 31)),
            st.tuples(st.just("correct"), st.integers(-(1 << 32), 1 << 32)),
            st.tuples(st.just("set"), st.integers(0, 1 << 62)),
        ),
        max_size=20,
    )
)
def test_against_fractions(steps):
    clock, counter, wanted, rate = RealTime(), 0, Fraction(0), Fraction(1)
    for number, (what, by) in enumerate(steps, 1):
        if what == "pass":
            counter += by
            wanted += by * rate
        elif what == "turn":
            clock.adjust(by, counter)
            wanted = max(wanted + by, Fraction(0))
        elif what == "correct":
            clock.correct(by, counter)
            rate = 1 + Fraction(by, 1_000_000 << 16)
        else:
            clock.set(by, counter)
            wanted = Fraction(by)
        assert abs(clock.at(counter) - wanted) <= number
        assert from_stamp(clock.stamp(counter)) == clock.at(counter)


@given(st.integers(-(1 << 31), 1 << 31), st.integers(0, 1 << 40))
def test_until(scaled_ppm, later):
    clock = RealTime()
    clock.set(5 * SECOND, 0)
    clock.correct(scaled_ppm, 0)
    left = clock.until(5 * SECOND + later, 0)
    assert abs(clock.at(left) - 5 * SECOND - later) <= 2


# -- as the driver sets it


def test_what_there_is(driver, function):
    general = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL << 1 | CapMode.CUR)
    caps = cmd_hca_cap.view(general.capability)
    assert (caps.sq_ts_format, caps.rq_ts_format, caps.pps, caps.pps_modify) == (2, 2, 1, 1)
    assert function.hca.caps.roce.qp_ts_format == 2
    mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg)
    assert port_regs.mcam_access_reg.view(mcam.mng_access_reg_cap_mask).mtutc
    features = port_regs.mcam_enhanced_features.view(mcam.mng_feature_cap_mask)
    for name in (
        "ptpcyc2realtime_modify", "mtutc_freq_adj_units", "mtutc_time_adjustment_extended_range",
        "mtpps_fs", "mtpps_enh_out_per_adj", "npps_period", "out_pulse_duration_ns",
    ):  # fmt: skip
        assert getattr(features, name)


def test_time_is_set(set_clock, time_of_day, clock, driver):
    assert set_clock(SET_TIME, utc_sec=1_800_000_000, utc_nsec=123_456_789) == Status.OK
    assert time_of_day() == 1_800_000_000 * SECOND + 123_456_789
    clock.advance(3 * SECOND)
    assert time_of_day() == 1_800_000_003 * SECOND + 123_456_789
    mtutc = driver.read_register(RegId.MTUTC, clock_regs.mtutc_reg)
    assert (mtutc.utc_sec, mtutc.utc_nsec) == (1_800_000_003, 123_456_789)
    assert 1 << mtutc.log_max_freq_adjustment > 50_000_000


@pytest.mark.parametrize("delta", [200_000, -200_000, 1, -(1 << 31)])
def test_time_is_turned(set_clock, time_of_day, delta):
    set_clock(SET_TIME, utc_sec=100)
    set_clock(ADJUST_TIME, time_adjustment=delta & 0xFFFFFFFF)
    assert time_of_day() == 100 * SECOND + delta


@pytest.mark.parametrize(
    ("fields", "gained"),
    [
        ({"freq_adjustment": 1000}, 1000),
        ({"freq_adjustment": -1000 & 0xFFFFFFFF}, -1000),
        ({"freq_adjustment": 1 << 16, "freq_adj_units": 1}, 1000),
        ({"freq_adjustment": -(1 << 15) & 0xFFFFFFFF, "freq_adj_units": 1}, -500),
    ],
)
def test_frequency(set_clock, time_of_day, clock, fields, gained):
    """In parts of 10^9, as Linux 6.1 writes it, or of 2^16 * 10^6."""
    set_clock(SET_TIME, utc_sec=100)
    assert set_clock(ADJUST_FREQUENCY, **fields) == Status.OK
    clock.advance(SECOND)
    assert abs(time_of_day() - 101 * SECOND - gained) <= 1
    set_clock(ADJUST_FREQUENCY)
    before = time_of_day()
    clock.advance(SECOND)
    assert time_of_day() - before == SECOND


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": 0},
        {"operation": 4},
        {"operation": SET_TIME, "utc_nsec": SECOND},
        {"operation": ADJUST_FREQUENCY, "freq_adjustment": 1 << 28},
        {"operation": ADJUST_FREQUENCY, "freq_adj_units": 2},
    ],
)
def test_what_is_refused(set_clock, time_of_day, fields):
    set_clock(SET_TIME, utc_sec=100)
    assert set_clock(**fields) == Status.BAD_PARAM_ERR
    assert time_of_day() == 100 * SECOND


@pytest.mark.parametrize("spec", ["connectx6dx"], indirect=True)
def test_a_card_without(driver, hca, node):
    for register, prm in (
        (RegId.MTUTC, clock_regs.mtutc_reg),
        (RegId.MTPPS, clock_regs.mtpps_reg),
        (RegId.MTPPSE, clock_regs.mtppse_reg),
    ):
        for op_mod in (0, READ):
            answer = driver.write_register(register, bytes(prm.size), op_mod=op_mod)
            assert answer.status == Status.BAD_PARAM_ERR
    mcam = driver.read_register(RegId.MCAM, port_regs.mcam_reg)
    assert not port_regs.mcam_access_reg.view(mcam.mng_access_reg_cap_mask).mtutc
    cq = CompletionQueue(node)
    for make, op in ((rq_fields, Op.CREATE_RQ), (sq_fields, Op.CREATE_SQ)):
        fields, _ = make(driver, node.pdn, cq.cqn, ts_format=2)
        assert driver.command(op, **fields).status == Status.BAD_PARAM_ERR


@pytest.mark.parametrize(
    "text",
    ["connectx6,link=eth,real_time=1", "connectx5,link=eth,pps=1", "connectx7,real_time=1",
     "connectx6dx,real_time=2"],
)  # fmt: skip
def test_cards_that_cannot(text):
    with pytest.raises(DeviceSpecError, match=r"real_time|pps"):
        devicespec.parse(text)


def test_a_virtual_function_has_the_time_but_no_pins():
    general = devicespec.parse("connectx7-vf,link=eth,real_time=1,pps=1").model.general
    assert general["rq_ts_format"] == 2
    assert "pps" not in general


# -- time stamps of completions


def stamp(entry):
    return entry.timestamp_h << 32 | entry.timestamp_l


@pytest.mark.parametrize("ts_format", [0, 1, 2])
def test_received_packets(hca, node, driver, set_clock, clock, ts_format):
    set_clock(SET_TIME, utc_sec=77, utc_nsec=5)
    rq = ReceiveQueue(node, ts_format=ts_format)
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    group = flows.group(table, 0, 0)
    flows.set_root(table)
    flows.entry(table, 0, group, to_tir(create_direct_tir(driver, alloc_td(driver), rq.rqn)))
    buffers = Buffers(rq)
    arrive(hca, Frame(FRAME))
    ((entry, _),) = buffers.drain()
    assert stamp(entry) == (77 << 32 | 5 if ts_format == 2 else clock.now_ns())


@pytest.mark.parametrize("ts_format", [0, 1, 2])
def test_sent_packets(node, driver, set_clock, clock, ts_format):
    set_clock(SET_TIME, utc_sec=77, utc_nsec=5)
    sq = SendQueue(node, tisn=create_tis(driver, alloc_td(driver)), ts_format=ts_format)
    region = node.region(len(FRAME))
    sq.send(region.sge())
    node.settle()
    entry = cqe64.view(sq.cq.peek())
    assert stamp(entry) == (77 << 32 | 5 if ts_format == 2 else clock.now_ns())


class TestSlowWire:
    """A peer in this process receives a frame, and stamps it, while the frame is being sent."""

    @pytest.fixture
    def eth_wire(self, clock):
        class SlowWire(TapWire):
            def transmit(self, source, frame, /):
                super().transmit(source, frame)
                clock.ns += SECOND

        return SlowWire()

    @pytest.mark.parametrize("ts_format", [0, 1, 2])
    def test_left_before_it_arrived(self, node, driver, set_clock, clock, ts_format):
        stamps = CompletionQueue(node)
        sq = SendQueue(
            node,
            tisn=create_tis(driver, alloc_td(driver)),
            ts_format=ts_format,
            ts_cqe_to_dest_cqn=stamps.cqn,
        )
        set_clock(SET_TIME, utc_sec=77, utc_nsec=5)
        begin = clock.now_ns()
        region = node.region(len(FRAME))
        sq.send(region.sge())
        node.settle()
        assert clock.now_ns() == begin + SECOND
        left = 77 << 32 | 5 if ts_format == 2 else begin
        assert stamp(cqe64.view(sq.cq.peek())) == left
        assert stamps.poll().timestamp == left


@pytest.mark.parametrize("ts_format", [3])
def test_no_other_formats(node, driver, ts_format):
    cq = CompletionQueue(node)
    fields, _ = rq_fields(driver, node.pdn, cq.cqn, ts_format=ts_format)
    assert driver.command(Op.CREATE_RQ, **fields).status == Status.BAD_PARAM_ERR


class TestPortStamps:
    """The private flag tx_port_ts (core/en/ptp.c)."""

    @pytest.fixture
    def stamps(self, node):
        return CompletionQueue(node)

    @pytest.fixture
    def sq(self, node, driver, stamps):
        tisn = create_tis(driver, alloc_td(driver))
        return SendQueue(node, tisn=tisn, ts_cqe_to_dest_cqn=stamps.cqn)

    def test_a_completion_for_each_packet(self, node, sq, stamps, clock, driver):
        answer = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.GENERAL_2 << 1 | CapMode.CUR)
        bits = cmd_hca_cap_2.view(answer.capability).ts_cqe_metadata_size2wqe_counter
        region = node.region(len(FRAME))
        numbers = (0, 7, (1 << bits) - 1, 1 << bits | 3)
        for metadata in numbers:
            sq.send(region.sge(), metadata=metadata)
        sq.nop()
        node.settle()
        for metadata in numbers:
            entry = stamps.poll()
            assert entry.opcode is CqeOpcode.RESP_SEND, "the driver takes others for errors"
            assert entry.wqe_counter == metadata % (1 << bits)
            assert entry.timestamp == clock.now_ns()
        assert stamps.peek() is None

    def test_not_of_one_that_fails(self, node, sq, stamps):
        sq.send((60, 0x123400, 0))
        node.settle()
        assert stamps.peek() is None

    def test_the_cq_is_held(self, sq, stamps, driver):
        answer = driver.command(Op.DESTROY_CQ, cqn=stamps.cqn)
        assert answer.status == Status.BAD_RES_STATE_ERR
        driver.must(Op.DESTROY_SQ, sqn=sq.sqn)
        driver.must(Op.DESTROY_CQ, cqn=stamps.cqn)

    def test_no_such_cq(self, node, driver):
        cq = CompletionQueue(node)
        fields, _ = sq_fields(driver, node.pdn, cq.cqn, ts_cqe_to_dest_cqn=0x1234)
        assert driver.command(Op.CREATE_SQ, **fields).status == Status.BAD_RES_ERR


@pytest.mark.parametrize("spec", ["connectx6,link=eth"], indirect=True)
def test_no_port_stamps_on_older_cards(node, driver):
    cq = CompletionQueue(node)
    fields, _ = sq_fields(driver, node.pdn, cq.cqn, ts_cqe_to_dest_cqn=cq.cqn)
    assert driver.command(Op.CREATE_SQ, **fields).status == Status.BAD_PARAM_ERR


# -- pulses


class TestPulses:
    @pytest.fixture
    def pin(self, driver):
        def write(number, *chosen, **fields):
            select = sum(1 << bit for bit in chosen)
            view = clock_regs.mtpps_reg.new(pin=number, field_select=select, **fields)
            return driver.write_register(RegId.MTPPS, bytes(view)).status

        return write

    @pytest.fixture
    def listen(self, driver):
        def write(number, mode, arm=0):
            view = clock_regs.mtppse_reg.new(pin=number, event_generation_mode=mode, event_arm=arm)
            return driver.write_register(RegId.MTPPSE, bytes(view)).status

        return write

    @pytest.fixture
    def pulses(self, driver):
        eqn = driver.create_eq(events=[EventType.PPS_EVENT], log_size=6)

        def found():
            views = [eqe_pps.view(entry.data) for entry in driver.eqs[eqn].drain()]
            return [(view.pin, view.time_stamp) for view in views]

        return found

    def period(self, ns):
        return ns // SECOND << 32 | ns % SECOND

    def out(self, pin, ns, start=0, duration=0, number=1):
        return pin(
            number, ENABLE, MODE, PATTERN, TIME_STAMP, PERIOD, DURATION,
            enable=1, pin_mode=PinMode.OUT, pattern=1, time_stamp=start,
            npps_period=self.period(ns), out_pulse_duration_ns=duration or ns // 2,
        )  # fmt: skip

    def take(self, pin, number=0, edge=RISING, on=1):
        return pin(
            number, ENABLE, MODE, PATTERN, enable=on, pin_mode=PinMode.IN, pattern=edge
        )  # fmt: skip

    def test_what_there_is(self, driver):
        found = driver.read_register(RegId.MTPPS, clock_regs.mtpps_reg, pin=1)
        assert (found.cap_number_of_pps_pins, found.cap_pin_1_mode, found.cap_pin_2_mode) == (
            2, 3, 0,
        )  # fmt: skip
        assert (found.cap_max_num_of_pps_in_pins, found.enable) == (2, 0)

    def test_periodic(self, pin, listen, pulses, set_clock, clock):
        """testptp -p: from a time of day on, and again after each period."""
        set_clock(SET_TIME, utc_sec=100)
        assert self.take(pin) == listen(0, EventMode.ALWAYS) == Status.OK
        assert self.out(pin, 10_000_000, start=101 << 32) == Status.OK
        clock.advance(SECOND - 1)
        assert pulses() == []
        clock.advance(25_000_000)
        assert pulses() == [(0, 101 << 32 | ns) for ns in (0, 10_000_000, 20_000_000)]
        assert pin(1, ENABLE, enable=0) == Status.OK
        clock.advance(SECOND)
        assert pulses() == []
        assert clock.waiting() == 0

    def test_start_in_the_past(self, pin, listen, pulses, set_clock, clock):
        set_clock(SET_TIME, utc_sec=100, utc_nsec=3_000_000)
        self.take(pin)
        listen(0, EventMode.ALWAYS)
        self.out(pin, 10_000_000, start=50 << 32)
        clock.advance(10_000_000)
        assert pulses() == [(0, 100 << 32 | 10_000_000)]

    def test_falling_edges(self, pin, listen, pulses, set_clock, clock):
        set_clock(SET_TIME, utc_sec=100)
        self.take(pin, edge=FALLING)
        listen(0, EventMode.ALWAYS)
        self.out(pin, 10_000_000, start=100 << 32, duration=3_000_000)
        clock.advance(20_000_000)
        assert pulses() == [(0, 100 << 32 | 13_000_000)]

    def test_follow_the_time_of_day(self, pin, listen, pulses, set_clock, clock):
        set_clock(SET_TIME, utc_sec=100)
        self.take(pin)
        listen(0, EventMode.ALWAYS)
        self.out(pin, SECOND, start=200 << 32)
        set_clock(SET_TIME, utc_sec=199)
        clock.advance(SECOND)
        assert pulses() == [(0, 200 << 32)]
        set_clock(ADJUST_TIME, time_adjustment=500_000_000)
        clock.advance(500_000_000)
        assert pulses() == [(0, 201 << 32)]

    def test_once(self, pin, listen, pulses, set_clock, clock):
        set_clock(SET_TIME, utc_sec=100)
        self.take(pin)
        listen(0, EventMode.ONCE, arm=1)
        self.out(pin, 10_000_000)
        clock.advance(50_000_000)
        assert len(pulses()) == 1
        listen(0, EventMode.ONCE)
        clock.advance(50_000_000)
        assert pulses() == []

    @pytest.mark.parametrize("how", ["off", "unheard", "out"])
    def test_not_taken(self, pin, listen, pulses, set_clock, clock, how):
        set_clock(SET_TIME, utc_sec=100)
        self.take(pin, on=how != "off")
        listen(0, EventMode.NEVER if how == "unheard" else EventMode.ALWAYS)
        self.out(pin, 10_000_000)
        if how == "out":
            pin(0, MODE, pin_mode=PinMode.OUT)
        clock.advance(50_000_000)
        assert [number for number, _ in pulses() if number == 0] == []

    @pytest.mark.parametrize(
        ("number", "chosen", "fields"),
        [
            (2, (), {}),
            (1, (PERIOD,), {"npps_period": 1000}),
            (1, (PERIOD,), {"npps_period": 0xFFFFFFFF << 32}),
            (1, (PERIOD, DURATION),
             {"npps_period": 10_000_000, "out_pulse_duration_ns": 10_000_000}),
            (1, (DURATION,), {"out_pulse_duration_ns": 1023}),
            (1, (MODE,), {"pin_mode": 2}),
        ],
    )  # fmt: skip
    def test_what_is_refused(self, pin, clock, hca, number, chosen, fields):
        before = repr(hca.pins)
        status = pin(number, ENABLE, *chosen, enable=1, **fields)
        assert status == Status.BAD_PARAM_ERR
        assert (repr(hca.pins), clock.waiting()) == (before, 0)

    @pytest.mark.parametrize(
        ("chosen", "fields"),
        [
            ((DURATION,), {"out_pulse_duration_ns": 10_000_000}),
            ((PERIOD,), {"npps_period": 5_000_000}),
        ],
    )
    def test_pulses_are_shorter_than_the_period_of_an_earlier_write(self, pin, hca, chosen, fields):
        assert self.out(pin, 10_000_000) == Status.OK
        before = repr(hca.pins)
        assert pin(1, *chosen, **fields) == Status.BAD_PARAM_ERR
        assert repr(hca.pins) == before
        both = {"npps_period": 20_000_000, "out_pulse_duration_ns": 10_000_000}
        assert pin(1, PERIOD, DURATION, **both) == Status.OK
        assert pin(1, DURATION, out_pulse_duration_ns=0) == Status.OK

    @pytest.mark.parametrize(
        ("chosen", "fields"),
        [
            (PERIOD, {"npps_period": 10_000_000, "out_pulse_duration_ns": 10_000_000}),
            (DURATION, {"npps_period": 1, "out_pulse_duration_ns": 10_000_000}),
            (PATTERN, {"pin_mode": 2}),
        ],
    )
    def test_what_is_not_chosen_is_not_looked_at(self, pin, chosen, fields):
        assert pin(1, chosen, **fields) == Status.OK

    def test_no_such_event_mode(self, listen):
        assert listen(0, 3) == Status.BAD_PARAM_ERR

    @pytest.mark.parametrize("spec", [FREE], indirect=True)
    def test_by_the_counter(self, pin, listen, pulses, clock):
        """Without a real-time clock the driver says when each pulse is (mlx5_pps_out)."""
        due = clock.now_ns() + SECOND
        self.take(pin)
        listen(0, EventMode.ALWAYS)
        listen(1, EventMode.ALWAYS)
        pin(
            1, ENABLE, MODE, PATTERN, TIME_STAMP,
            enable=1, pin_mode=PinMode.OUT, pattern=1, time_stamp=due,
        )  # fmt: skip
        clock.advance(3 * SECOND)
        assert pulses() == [(1, due), (0, due)]
        pin(1, TIME_STAMP, time_stamp=due + 4 * SECOND)
        clock.advance(2 * SECOND)
        assert pulses() == [(1, due + 4 * SECOND), (0, due + 4 * SECOND)]
        pin(1, TIME_STAMP, time_stamp=due)
        assert clock.waiting() == 0, "it is too late for this one"

    def test_end_with_the_driver(self, pin, driver, set_clock, clock):
        self.out(pin, 10_000_000)
        assert clock.waiting()
        driver.must(Op.TEARDOWN_HCA)
        assert clock.waiting() == 0


def test_registers_of_the_clock_in_the_segment():
    assert init_seg.view(bytearray(init_seg.size)).real_time_h == 0
