"""Frame check sequences: behind packets (rx-fcs), and wrong ones (rx-all)."""

import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.models import MODELS
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.device.rounds.backlog import MAX_WAITING
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import copy_field, to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import UDP, EthPacket, ones_complement_sum
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.world.cable import arrive, set_link
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeChecked
from layouts.enums.modify_header import ModifyField
from layouts.enums.regs import CountersGroup, RegId
from layouts.enums.wq import ModifyRq, RqState
from layouts.regs import port_counters, port_regs, reg

ALL_OK = CqeChecked.L2 | CqeChecked.L3 | CqeChecked.L4


@pytest.fixture
def base_model():
    return MODELS["connectx6dx"]


def fcs(frame):
    return zlib.crc32(frame).to_bytes(4, "little")


@pytest.fixture
def lead(driver):
    """Makes every frame go to a queue, changed by the actions that are given."""

    def to(rqn, *actions):
        flows = Flows(driver)
        table = flows.table(0, log_size=0)
        group = flows.group(table, 0, 0)
        flows.set_root(table)
        tir = create_direct_tir(driver, alloc_td(driver), rqn)
        modify = flows.context(*actions) if actions else 0
        flows.entry(table, 0, group, to_tir(tir), modify=modify)

    return to


@pytest.fixture
def make(node, counter, lead):
    def queue(**context):
        rq = ReceiveQueue(node, counter_set_id=counter, **context)
        lead(rq.rqn)
        return Buffers(rq)

    return queue


@pytest.fixture
def plan(function):
    injector = Injector(function)
    function.use_faults(injector)
    return lambda text: injector.load(load(f"[[rule]]\n{text}"))


def pcmr(driver):
    return driver.read_register(RegId.PCMR, port_regs.pcmr_reg, local_port=1)


def check_frames(driver, on):
    """What ethtool -K rx-all writes (core/port.c: mlx5_set_port_fcs)."""
    view = port_regs.pcmr_reg.view(bytearray(bytes(pcmr(driver))))
    view.local_port, view.fcs_chk = 1, on
    assert driver.write_register(RegId.PCMR, bytes(view)).status == Status.OK


def crc_errors(driver):
    group = driver.read_register(
        RegId.PPCNT, reg.ppcnt_reg, local_port=1, grp=CountersGroup.IEEE_802_3
    ).counter_set
    view = port_counters.eth_802_3_cntrs_grp_data_layout.view(bytearray(bytes(group)))
    return view.a_frame_check_sequence_errors_low


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(payload=st.binary(min_size=0, max_size=300), tag=st.booleans(), udp=st.booleans())
def test_behind_the_packet(hca, make_once, payload, tag, udp):
    """Of the frame as it was on the cable; the sum covers it, as all that is delivered."""
    buffers = make_once
    packet = EthPacket(payload=payload, **({"protocol": UDP} if udp else {}))
    frame = packet.frame().ljust(60, b"\0")
    if tag:
        frame = frame[:12] + b"\x81\x00\x00\x07" + frame[12:]
    arrive(hca, Frame(frame))
    ((entry, data),) = buffers.drain()
    buffers.post()
    without = frame[:12] + frame[16:] if tag else frame
    assert data == without + fcs(frame)
    assert entry.byte_cnt == len(without) + 4
    assert entry.check_sum % 0xFFFF == ones_complement_sum(data[14:]) % 0xFFFF
    assert entry.hds_ip_ext == ALL_OK


@pytest.fixture
def make_once(make):
    return make(scatter_fcs=1, vsd=0)


def test_of_a_frame_whose_checksums_the_device_fills_in(hca, make):
    buffers = make(scatter_fcs=1)
    right = EthPacket(payload=bytes(range(100))).frame()
    undone = bytearray(right)
    undone[50:52] = b"\0\0"
    arrive(hca, Frame(bytes(undone), checked=True))
    ((_, data),) = buffers.drain()
    assert data == right + fcs(right)


def test_registers_of_the_switch_stay_with_the_packet(hca, node, lead):
    """As tc restores a chain from them (core/lib/fs_chains.c: create_chain_restore)."""
    rq = ReceiveQueue(node, scatter_fcs=1)
    lead(rq.rqn, copy_field(ModifyField.METADATA_REG_C_0, ModifyField.METADATA_REG_B, 16))
    buffers, frame = Buffers(rq), EthPacket(payload=bytes(100)).frame()
    arrive(hca, Frame(frame, registers={ModifyField.METADATA_REG_C_0: 0x1234}))
    ((entry, data),) = buffers.drain()
    assert data == frame + fcs(frame)
    assert entry.immediate == 0x1234


def test_each_packet_of_a_super_frame(hca, make):
    buffers = make(scatter_fcs=1)
    packet = EthPacket(payload=bytes(250))
    whole = packet.frame()
    header = whole[: len(whole) - 250]
    arrive(hca, Frame(unsegmented(header, bytes(250), 100), 100, checked=True))
    packets = [data for _, data in buffers.drain()]
    assert [len(data) - len(header) for data in packets] == [104, 104, 54]
    assert all(data[-4:] == fcs(data[:-4]) for data in packets)


def test_may_be_chosen_while_packets_come(hca, make):
    """As Linux 6.1 does (core/en_main.c: mlx5e_modify_rq_scatter_fcs)."""
    buffers = make()
    frame = EthPacket(payload=bytes(100)).frame()
    for on in (1, 0):
        buffers.rq.modify(RqState.RDY, ctx={"scatter_fcs": on}, modify_bitmask=ModifyRq.SCATTER_FCS)
        assert buffers.rq.query().scatter_fcs == on
        arrive(hca, Frame(frame))
        ((_, data),) = buffers.drain()
        assert data == frame + fcs(frame) * on


def test_not_without_the_capability(driver, hca, make):
    buffers = make()
    hca.caps.ethernet.scatter_fcs = 0
    answer = driver.command(
        Op.MODIFY_RQ, rqn=buffers.rq.rqn, rq_state=RqState.RDY,
        ctx={"state": RqState.RDY, "scatter_fcs": 1}, modify_bitmask=ModifyRq.SCATTER_FCS,
    )  # fmt: skip
    assert answer.status == Status.BAD_PARAM_ERR
    assert buffers.rq.query().scatter_fcs == 0


class TestDamaged:
    FRAME = EthPacket(payload=bytes(range(100))).frame()

    def test_is_dropped_and_counted(self, hca, driver, make, plan):
        plan('point="frame.rx"\naction="damage"\nat=60')
        buffers = make(scatter_fcs=1)
        arrive(hca, Frame(self.FRAME))
        assert not buffers.drain()
        assert crc_errors(driver) == 1
        assert hca.nic_vport.received.errors == 1
        assert hca.nic_vport.received.packets == 0

    def test_is_received_when_the_port_does_not_check(self, hca, driver, make, plan):
        plan('point="frame.rx"\naction="damage"\nat=60\ntimes=1')
        buffers = make(scatter_fcs=1)
        check_frames(driver, 0)
        arrive(hca, Frame(self.FRAME))
        arrive(hca, Frame(self.FRAME))
        (entry, wrong), (_, right) = buffers.drain()
        assert wrong[:60] + bytes((wrong[60] ^ 0xFF,)) + wrong[61:] == right
        assert not entry.hds_ip_ext & CqeChecked.L4, "the transport's checksum is wrong, too"
        assert crc_errors(driver) == 1
        received = hca.nic_vport.received
        assert (received.packets, received.octets, received.errors) == (2, 2 * len(self.FRAME), 0)
        check_frames(driver, 1)
        assert hca.eth.checks_fcs

    def test_too_long(self, hca, driver, make, plan):
        plan('point="frame.rx"\naction="damage"')
        buffers = make()
        check_frames(driver, 0)
        arrive(hca, Frame(EthPacket(payload=bytes(10_000)).frame()))
        assert not buffers.drain()
        assert hca.nic_vport.received.errors == 1

    def test_too_many_in_one_round(self, hca, make, plan):
        plan('point="frame.rx"\naction="damage"')
        hca.budget.steps = hca.budget.limit + 1
        for _ in range(MAX_WAITING + 2):
            arrive(hca, Frame(self.FRAME))
        assert hca.nic_vport.received.discards == 2

    def test_the_cable_is_pulled_while_it_waits(self, function, hca, driver, make, plan):
        plan('point="frame.rx"\naction="damage"')
        hca.budget.steps = hca.budget.limit + 1
        arrive(hca, Frame(self.FRAME))
        set_link(hca, up=False)
        driver.bar.settle()
        assert crc_errors(driver) == 0

    def test_first_packet_of_a_super_frame(self, hca, driver, make, plan):
        plan('point="frame.rx"\naction="damage"')
        buffers = make()
        header = self.FRAME[:54]
        arrive(hca, Frame(unsegmented(header, bytes(250), 100), 100, checked=True))
        assert [len(data) for _, data in buffers.drain()] == [154, 104]
        assert crc_errors(driver) == 1


def test_what_can_be_chosen(driver):
    view = port_regs.pcmr_reg.view(bytearray(bytes(pcmr(driver))))
    assert (view.fcs_cap, view.fcs_chk) == (1, 1)
    assert (view.entropy_force_cap, view.rx_ts_over_crc_cap) == (0, 0)
