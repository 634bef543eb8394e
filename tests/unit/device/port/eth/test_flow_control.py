"""Pause frames that come in, as IEEE 802.3 31B and IEEE 802.1Q 36 have them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.flow_control import CONTROL_ADDRESS, MAC_CONTROL, FlowControl

SPEED = 100_000
NOW = 10**9


def control(opcode, *words):
    body = struct.pack(f">H{len(words)}H", opcode, *words)
    return (CONTROL_ADDRESS + bytes(6) + MAC_CONTROL + body).ljust(60, b"\0")


def pause(quanta):
    return control(1, quanta)


def pfc(vector, *quanta):
    return control(0x101, vector, *quanta)


def test_a_pause_is_about_all_priorities_and_lasts_for_its_quanta():
    flow = FlowControl()
    flow.receive_control(pause(1000), NOW, SPEED)
    came = flow.received
    assert (came.control, came.global_, came.unknown) == (1, 1, 0)
    assert (came.frames, came.transitions) == ([1] * 8, [1] * 8)
    assert came.duration_ns == [5120 * 1000 // 1000] * 8  # 512,000 bits at 100 Gb/s


def test_a_pause_that_is_renewed_or_ended_counts_for_as_long_as_it_was():
    flow = FlowControl()
    flow.receive_control(pause(1000), NOW, SPEED)
    flow.receive_control(pause(1000), NOW + 3000, SPEED)
    assert flow.received.duration_ns[0] == 3000 + 5120
    flow.receive_control(pause(0), NOW + 4000, SPEED)
    assert (flow.received.duration_ns[0], flow.received.transitions[0]) == (4000, 1)
    flow.receive_control(pause(1), NOW + 5000, SPEED)
    assert (flow.received.transitions[0], flow.received.frames[0]) == (2, 4)


def test_pfc_is_about_the_priorities_in_its_vector():
    flow = FlowControl(pause_rx=False, pfc_rx=1 << 3)
    flow.receive_control(pfc(1 << 3 | 1 << 5, *range(0, 8000, 1000)), NOW, SPEED)
    came = flow.received
    assert came.frames == [0, 0, 0, 1, 0, 1, 0, 0]
    assert came.transitions == [0, 0, 0, 1, 0, 0, 0, 0]
    assert came.duration_ns == [0, 0, 0, 3 * 5120, 0, 0, 0, 0]
    assert came.global_ == 0


def test_what_is_not_obeyed_is_counted_and_stops_nothing():
    flow = FlowControl(pause_rx=False)
    flow.receive_control(pause(1000), NOW, SPEED)
    assert (flow.received.global_, flow.received.frames) == (1, [1] * 8)
    assert (flow.received.transitions, flow.received.duration_ns) == ([0] * 8, [0] * 8)


@pytest.mark.parametrize("frame", [control(2, 1), control(1, 1)[:20], control(0x101)[:30]])
def test_what_is_neither_is_unknown(frame):
    flow = FlowControl()
    flow.receive_control(frame, NOW, SPEED)
    assert (flow.received.control, flow.received.unknown) == (1, 1)
    assert flow.received.frames == [0] * 8


@pytest.mark.hostile
@given(st.lists(st.tuples(st.binary(max_size=64), st.integers(0, 10**6)), max_size=20))
def test_any_bytes_are_counted_and_no_time_is_counted_twice(frames):
    flow, now = FlowControl(pfc_rx=0xFF), NOW
    for body, later in frames:
        now += later
        flow.receive_control(CONTROL_ADDRESS + bytes(6) + MAC_CONTROL + body, now, SPEED)
    came = flow.received
    assert came.control == len(frames)
    longest = 0xFFFF * 5120 // 1000
    assert all(0 <= time <= now - NOW + longest for time in came.duration_ns)
