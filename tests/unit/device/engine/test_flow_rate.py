"""The rate of a flow under congestion notifications (DCQCN)."""

import pytest

from emu.device.engine.rc.packets.rate import BURST_NS, IDLE_NS, FlowRate
from emu.device.port.congestion import Congestion

GBIT = 1_000_000_000
US = 1000
LINE = 100 * GBIT
START = 1_000_000_000


@pytest.fixture
def congestion():
    return Congestion(100_000)


@pytest.fixture
def flow(congestion):
    made = FlowRate(congestion, START)
    made.notified(START)
    return made


def test_the_first_notification_halves_the_rate(flow):
    assert flow.rate == pytest.approx(LINE / 2, rel=0.01)
    assert flow.target == LINE


def test_the_first_rate_can_be_set(congestion):
    congestion.rp.rate_to_set_on_first_cnp = 8_000
    flow = FlowRate(congestion, START)
    flow.notified(START)
    assert flow.rate == pytest.approx(4 * GBIT, rel=0.01)


def test_notifications_within_the_monitor_period_cut_once(flow):
    before = flow.rate
    for _ in range(10):
        flow.notified(START + 3 * US)
    assert flow.rate == before
    flow.notified(START + 4 * US)
    assert before * 0.45 < flow.rate < before * 0.6


def test_a_flood_ends_at_the_lowest_rate(congestion, flow):
    congestion.rp.rpg_min_rate = 20
    for number in range(2000):
        flow.notified(START + number * 5 * US)
    assert flow.rate == 20_000_000


def test_a_notification_leaves_at_least_a_part(congestion, flow):
    congestion.rp.rpg_min_dec_fac = 90
    before = flow.rate
    flow.notified(START + 4 * US)
    assert flow.rate == pytest.approx(before * 0.9)


def test_with_a_slow_estimate_a_notification_after_a_quiet_time_cuts_less(congestion, flow):
    congestion.rp.dce_tcp_g, congestion.rp.dce_tcp_rtt = 64, 10
    now = START + 250 * US
    before = flow.rate
    flow.notified(now)
    assert before * 0.7 < flow.rate < before


def test_it_rises_halfway_to_its_target_with_each_step_of_time(flow):
    low = flow.rate
    assert not flow.is_over(START + 299 * US)
    assert flow.rate == low
    flow.is_over(START + 300 * US)
    assert flow.rate == pytest.approx((low + LINE) / 2)
    assert flow.is_over(START + 300 * US * 12)


def test_the_target_rises_once_it_is_reached(congestion, flow):
    congestion.rp.clamp_tgt_rate = 1
    flow.notified(START + 4 * US)
    target = flow.target
    assert target == pytest.approx(LINE / 2, rel=0.01)
    begin = START + 4 * US
    flow.is_over(begin + 300 * US)
    assert flow.target == target
    flow.is_over(begin + 600 * US)
    assert flow.target == target + 5_000_000


def test_steps_of_bytes_raise_it_as_well(congestion, flow):
    congestion.rp.rpg_byte_reset = 1000  # 64,000 bytes
    low = flow.rate
    for _ in range(64):
        flow.sent(1000, START)
    assert flow.rate > low * 1.4
    congestion.rp.clamp_tgt_rate = 1
    flow.notified(START + 4 * US)
    target = flow.target
    for _ in range(3):
        flow.is_over(START + 4 * US + 900 * US)
        for _ in range(64):
            flow.sent(1000, START + 904 * US)
    assert flow.target >= target + 50_000_000


def test_a_packet_makes_the_next_ones_wait(congestion, flow):
    congestion.rp.rpg_min_rate = congestion.rp.rpg_min_dec_fac = 0
    for number in range(1, 100):
        flow.notified(START + number * 4 * US)
    now = START + 400 * US
    pause = flow.sent(4096, now)
    assert pause == pytest.approx(4096 * 8e9 / flow.rate, rel=0.01)
    assert flow.sent(4096, now + pause) == pytest.approx(pause, rel=0.01)


def test_small_debts_are_not_waited_for(flow):
    assert flow.sent(4096, START) == 0
    pauses = [flow.sent(4096, START) for _ in range(200)]
    assert any(pauses)
    assert all(pause > BURST_NS for pause in pauses if pause)


def test_an_idle_flow_is_forgotten(congestion, flow):
    congestion.rp.rpg_time_reset = 0
    assert not flow.is_over(START + IDLE_NS)
    assert flow.is_over(START + IDLE_NS + 1)


@pytest.mark.parametrize(
    "values", [{}, {"rpg_min_dec_fac": 0, "rpg_min_rate": 0}, {"dce_tcp_rtt": 0, "dce_tcp_g": 0},
               {"rpg_max_rate": 0xFFFFFFFF, "rpg_ai_rate": 0xFFFFFFFF, "rpg_hai_rate": 0xFFFFFFFF},
               {"rpg_min_rate": 0xFFFFFFFF}, {"rate_to_set_on_first_cnp": 0xFFFFFFFF},
               {"rpg_time_reset": 1, "rpg_byte_reset": 1}, {"rpg_max_rate": 1}],
)  # fmt: skip
def test_whatever_the_parameters_the_rate_stays_within_its_bounds(congestion, values):
    for name, value in values.items():
        setattr(congestion.rp, name, value)
    flow = FlowRate(congestion, START)
    for number in range(1000):
        now = START + number * 7 * US
        if number % 3:
            flow.sent(4096, now)
        else:
            flow.notified(now)
        flow.is_over(now)
        assert 0 < flow.rate <= congestion.most_rate
