"""Rules at every point: what the driver and its queue pairs see of each."""

from __future__ import annotations

import contextlib

import pytest

from emu.device.faults import effects
from emu.device.faults.injector import Injector
from emu.device.faults.parser import PlanError, load
from emu.device.faults.points.events import EventQueueEntry
from emu.device.objects.object import SHARED_UID
from emu.device.ports import DmaError
from emu.driver.verbs.connect import connect
from emu.driver.world.cable import set_link
from layouts.enums.cmd import DeliveryStat, Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState
from layouts.enums.regs import RegId
from layouts.function.caps import cmd_hca_cap
from layouts.regs.port_regs import mcam_reg
from layouts.rings.eqe import eqe_comp

MS = 1_000_000


@pytest.fixture
def fired():
    return []


@pytest.fixture
def faults(function, fired):
    injector = Injector(function, sink=fired.append)
    function.use_faults(injector)
    return injector


@pytest.fixture
def plan(faults):
    """Loads a plan given as TOML, or as one rule's lines."""

    def load_it(text):
        faults.load(load(text if "[[rule]]" in text else f"[[rule]]\n{text}"))

    return load_it


def run(node, clock, rounds=200):
    """Let packets, delays and work move on, without much time."""
    for _ in range(rounds):
        clock.advance(1000)
        node.settle()


# -- what changes nothing has not fired


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ('action="event"\nevent="PPS_EVENT"', "no event queue for PPS_EVENT"),
        ('action="pages"\ncount=3', "no event queue for PAGE_REQUEST"),
        ('action="link"\nup=true', "the link is up already"),
        ('action="health"', "the health buffer is unchanged"),
        ('action="capabilities"\nset.num_ports=200', "num_ports is above its value"),
    ],
)
def test_an_action_that_changes_nothing_has_not_fired(function, plan, faults, fired, rule, why):
    """Before the driver is up there is no event queue; the power-on state is what it was."""
    plan(f'point="load"\n{rule}')
    (count,) = faults.listing()
    assert (count["fired"], count["without_effect"]) == (0, 1)
    assert why in count["why"]
    assert [why in one.without_effect for one in fired] == [True]


def test_an_event_finds_its_queue_when_the_driver_is_up(driver, plan, faults, fired):
    driver.use_events()
    plan('point="load"\naction="event"\nevent="PPS_EVENT"')
    (count,) = faults.listing()
    assert (count["fired"], count["without_effect"]) == (1, 0)
    assert [one.without_effect for one in fired] == [""]


def test_an_event_that_a_rule_would_not_change_goes_on(driver, plan, faults, fired):
    driver.use_events()
    plan('point="cmd.done"\naction="corrupt"\nmatch.op="ALLOC_PD"\nset.pd=0x77\ntimes=1')
    assert driver.command(Op.ALLOC_PD).pd == 0x77
    plan('point="eqe"\naction="corrupt"\nset.cqn=1\ntimes=1')  # which a CMD event has not
    assert not driver.command(Op.ALLOC_PD).status
    (count,) = faults.listing()
    assert (count["fired"], count["without_effect"]) == (0, 1)
    assert fired[-1].without_effect


# -- commands


def test_third_command_of_a_kind_fails_with_status_and_syndrome(driver, plan, fired):
    plan('point="cmd"\naction="fail"\nmatch.op="ALLOC_PD"\nindex=3\nstatus="NO_RES_ERR"\n'
         "syndrome=0x1234")  # fmt: skip
    answers = [driver.command(Op.ALLOC_PD) for _ in range(4)]
    assert [answer.status for answer in answers] == [0, 0, Status.NO_RES_ERR, 0]
    assert answers[2].syndrome == 0x1234
    assert [(one.n, one.event["op"]) for one in fired] == [(3, "ALLOC_PD")]


def test_failure_before_leaves_nothing_and_after_leaves_the_object(driver, function, plan):
    count = len(function.hca.pds)
    plan('point="cmd"\naction="fail"\nmatch.op="ALLOC_PD"')
    assert driver.command(Op.ALLOC_PD).status == Status.INT_ERR
    assert len(function.hca.pds) == count
    plan('point="cmd.done"\naction="fail"\nmatch.op="ALLOC_PD"\nstatus="LIM_ERR"')
    assert driver.command(Op.ALLOC_PD).status == Status.LIM_ERR
    assert len(function.hca.pds) == count + 1


def test_delivery_status(driver, plan):
    plan('point="cmd.done"\naction="fail"\ndelivery="FW_ERR"\ntimes=1')
    assert driver.command(Op.ALLOC_PD).delivery == DeliveryStat.FW_ERR
    assert driver.command(Op.ALLOC_PD).delivery == 0


def test_command_is_matched_by_fields_of_its_input(driver, node, plan):
    plan('point="cmd"\naction="fail"\nstatus="LIM_ERR"\n'
         'match={op="CREATE_MKEY", memory_key_mkey_entry.len="8192..9000"}')  # fmt: skip
    node.region(4096)
    with pytest.raises(AssertionError, match="LIM_ERR"):
        node.region(8192)


def test_input_and_output_corrupted(driver, plan, function):
    plan('point="cmd.done"\naction="corrupt"\nmatch.op="ALLOC_PD"\nset.pd=0x777')
    assert driver.command(Op.ALLOC_PD).pd == 0x777
    pdn = next(iter(function.hca.pds)).handle
    plan(f'point="cmd"\naction="corrupt"\nmatch.op="DEALLOC_PD"\nset.pd={pdn + 500}')
    assert driver.command(Op.DEALLOC_PD, pd=pdn).status == Status.BAD_RES_STATE_ERR


def test_fields_of_a_capability_page_and_of_a_register_corrupted(driver, plan):
    plan('point="cmd.done"\naction="corrupt"\nmatch={op="QUERY_HCA_CAP", op_mod=0}\n'
         "set.capability.num_ports=200")  # fmt: skip
    pages = [driver.command(Op.QUERY_HCA_CAP, op_mod=mode).capability for mode in (0, 1)]
    assert [cmd_hca_cap.view(page).num_ports for page in pages] == [200, 1]
    plan('point="cmd.done"\naction="corrupt"\nset.register_data.feature_group=77\n'
         f'match={{op="ACCESS_REG", register_id={int(RegId.MCAM):#x}}}')  # fmt: skip
    assert driver.read_register(RegId.MCAM, mcam_reg).feature_group == 77


def test_unknown_field_of_a_capability_page_is_a_mistake_of_the_plan(plan):
    with pytest.raises(PlanError, match="no field of cmd_hca_cap; near it: num_ports"):
        plan('point="cmd.done"\naction="corrupt"\nmatch={op="QUERY_HCA_CAP", op_mod=1}\n'
             "set.capability.num_port=2")  # fmt: skip


def test_output_replaced(driver, plan):
    plan('point="cmd.done"\naction="replace"\nmatch.op="ALLOC_PD"\ndata="00000000000000000000beef"')
    assert driver.command(Op.ALLOC_PD).pd == 0xBEEF


@pytest.mark.parametrize("point", ["cmd", "cmd.done"])
def test_command_never_answered(driver, plan, function, point):
    plan(f'point="{point}"\naction="drop"\nmatch.op="ALLOC_PD"')
    before = len(function.hca.pds)
    with pytest.raises(AssertionError, match="still owned by the device"):
        driver.command(Op.ALLOC_PD)
    assert len(function.hca.pds) - before == (point == "cmd.done")


@pytest.mark.parametrize("point", ["cmd", "cmd.done", "cmd.completion"])
def test_command_late(driver, plan, clock, point):
    eq = driver.use_events()
    plan(f'point="{point}"\naction="delay"\nms=50\nmatch.op="ALLOC_PD"')
    blocks = driver.submit(bytes.fromhex("0800000000000000") + bytes(8), 16)
    driver.ring(1)
    clock.advance(49 * MS)
    assert not list(eq.drain())
    clock.advance(2 * MS)
    driver.bar.settle()
    assert [entry.type for entry in eq.drain()] == [EventType.CMD]
    assert driver.collect(blocks, 16)[0] == 0


def test_completion_of_a_command_twice_and_never(driver, plan, clock):
    eq = driver.use_events()
    plan('point="cmd.completion"\naction="duplicate"\ntimes=1\nmatch.op="ALLOC_PD"')
    driver.command(Op.ALLOC_PD)
    clock.advance(1)
    driver.bar.settle()
    assert len(list(eq.drain())) == 2
    plan('point="cmd.completion"\naction="drop"\nmatch.op="ALLOC_PD"')
    driver.command(Op.ALLOC_PD)
    assert not list(eq.drain())


@pytest.mark.parametrize(("count", "reports"), [(0, 1), (-1, 1), (1, 2), (3, 4)])
def test_completion_of_a_command_is_repeated_count_times(driver, plan, clock, count, reports):
    eq = driver.use_events()
    plan(f'point="cmd.completion"\naction="duplicate"\ncount={count}\nmatch.op="ALLOC_PD"')
    driver.command(Op.ALLOC_PD)
    clock.advance(1)
    driver.bar.settle()
    assert len(list(eq.drain())) == reports


def test_late_command_of_a_reset_function_stays_away(driver, plan, clock, function, caplog):
    plan('point="cmd"\naction="delay"\nms=50\nmatch.op="ALLOC_PD"')
    driver.submit(bytes.fromhex("0800000000000000") + bytes(8), 16)
    driver.ring(1)
    function.reset()
    clock.advance(100 * MS)
    assert not function.hca.pds


# -- events and interrupts


@pytest.mark.parametrize("point", ["cmd", "cmd.done", "cmd.completion"])
def test_delayed_command_of_a_driver_that_has_left(driver, function, plan, clock, point):
    """Its command queue is the memory of somebody else by then."""
    plan(f'point="{point}"\naction="delay"\nms=50\nmatch.op="ALLOC_PD"')
    driver.use_events()
    blocks = driver.submit(Op.ALLOC_PD.to_bytes(2, "big") + bytes(14), 16, slot=3)
    driver.ring(1 << 3)
    assert blocks
    driver.queue = driver.memory.alloc(4096)
    driver.attach()
    before = driver.memory.contents()
    clock.advance(100 * MS)
    driver.bar.settle()
    assert driver.memory.contents() == before


def test_event_lost_doubled_late_and_corrupted(node, plan, clock, function):
    def link(up):
        set_link(function.hca, up=up)

    eqn = node.driver.create_eq(events=[EventType.PORT_CHANGE])
    eq = node.driver.eqs[eqn]
    plan('point="eqe"\naction="drop"\nmatch.type="PORT_CHANGE"')
    link(False)
    assert not list(eq.drain())
    plan('point="eqe"\naction="duplicate"\ncount=2\nmatch.type="PORT_CHANGE"')
    link(True)
    assert len(list(eq.drain())) == 3
    for count in (0, -1):
        plan(f'point="eqe"\naction="duplicate"\ncount={count}\nmatch.type="PORT_CHANGE"')
        link(count == -1)
        assert len(list(eq.drain())) == 1
    plan('point="eqe"\naction="delay"\nms=5\nmatch.type="PORT_CHANGE"')
    link(False)
    assert not list(eq.drain())
    clock.advance(6 * MS)
    assert len(list(eq.drain())) == 1
    plan('point="eqe"\naction="corrupt"\nmatch.type="PORT_CHANGE"\nset.port.port_num=7')
    link(True)
    (entry,) = eq.drain()
    assert entry.data[8] >> 4 == 7


def test_a_completion_event_has_the_user_context_of_its_queue(node, function, faults):
    """A rule can leave the driver's own queues alone."""
    driver = node.driver
    eqn = driver.must(Op.CREATE_EQ, uid=SHARED_UID, **driver.eq_fields()).eq_number
    uid = driver.must(Op.CREATE_UCTX).uid
    fields = driver.cq_fields(eqn, uar_page=driver.must(Op.ALLOC_UAR, uid=uid).uar)
    users = driver.must(Op.CREATE_CQ, uid=uid, **fields).cqn
    eq = function.hca.eqs.get(eqn)

    def uid_of(event, cqn):
        data = eqe_comp.new(cqn=cqn)
        return EventQueueEntry(faults, eq, event, 0, data).uid

    assert uid_of(EventType.COMP, users) == uid
    assert uid_of(EventType.COMP, driver.create_cq(eqn)) == 0
    assert uid_of(EventType.COMP, 0xFFFFFF) == 0
    assert uid_of(EventType.PORT_CHANGE, users) == 0


def test_events_reordered(node, plan, function):
    eqn = node.driver.create_eq(events=[EventType.PORT_CHANGE])
    plan('point="eqe"\naction="reorder"\nindex=1')
    set_link(function.hca, up=False)
    set_link(function.hca, up=True)
    assert [entry.sub_type for entry in node.driver.eqs[eqn].drain()] == [4, 1]


@pytest.mark.parametrize("ends", ["next", "rule", "objects"])
def test_a_reordered_event_is_held_until_the_next_one_or_the_end_of_its_rule(
    node, plan, function, faults, clock, ends
):
    """Without the rule no later event is shown, so the event does not wait for one."""
    eq = node.driver.eqs[node.driver.create_eq(events=[EventType.PORT_CHANGE])]
    plan('name="behind"\npoint="eqe"\naction="reorder"\ntimes=1')
    set_link(function.hca, up=False)
    assert (faults.held, faults.listing()[0]["fired"]) == (1, 1)
    assert not list(eq.drain())
    if ends == "next":
        set_link(function.hca, up=True)
    elif ends == "rule":
        faults.clear()
    else:
        faults.forget_objects()
    clock.advance(0)
    found = [entry.sub_type for entry in eq.drain()]
    assert (faults.held, found) == (0, {"next": [4, 1], "rule": [1], "objects": []}[ends])


@pytest.mark.parametrize("failing", ["next", "reordered"])
def test_of_an_event_and_a_reordered_one_either_may_fail(
    node, plan, function, faults, monkeypatch, failing
):
    """An event's own exception goes to its dispatcher, that of a reordered one only to the log."""
    go_on = EventQueueEntry.go_on
    fails = {"next": 4, "reordered": 1}[failing]

    def may_fail(event):
        if event.sub_type == fails:
            raise DmaError(0, 64)
        return go_on(event)

    eq = node.driver.eqs[node.driver.create_eq(events=[EventType.PORT_CHANGE])]
    monkeypatch.setattr(EventQueueEntry, "go_on", may_fail)
    plan('point="eqe"\naction="reorder"\ntimes=1')
    set_link(function.hca, up=False)
    with pytest.raises(DmaError) if failing == "next" else contextlib.nullcontext():
        set_link(function.hca, up=True)
    assert [entry.sub_type for entry in eq.drain()] == [5 - fails]
    assert faults.held == 0


def test_event_that_nothing_has_caused(node, plan):
    cq = node.completion_queue()
    plan(f'point="load"\naction="event"\nevent="CQ_ERROR"\nset={{cqn={cq.cqn}, syndrome=1}}')
    assert node.events() == [(EventType.CQ_ERROR, cq.cqn)]


@pytest.mark.parametrize(("count", "events"), [(0, 0), (-2, 0), (2, 2)])
def test_event_is_posted_count_times(driver, plan, faults, count, events):
    eq = driver.use_events()
    plan(f'point="load"\naction="event"\nevent="PPS_EVENT"\ncount={count}')
    driver.bar.settle()
    assert len(list(eq.drain())) == events
    (rule,) = faults.listing()
    assert rule["fired"] == (events > 0)


def test_event_that_no_queue_has_asked_for(driver, plan):
    eq = driver.use_events()
    plan('point="load"\naction="event"\nevent="PPS_EVENT"\ndata="00112233"')
    driver.bar.settle()
    assert [(entry.type, bytes(entry.data[:4])) for entry in eq.drain()] == [
        (EventType.PPS_EVENT, bytes.fromhex("00112233"))
    ]


def test_interrupt_lost_and_spurious(driver, plan, irqs, function):
    driver.use_events(vector=3)
    irqs.fired.clear()
    plan('point="irq"\naction="drop"\nmatch.vector=3')
    driver.command(Op.ALLOC_PD)
    assert irqs.fired == []
    plan('point="load"\naction="interrupt"\nvector=9\ncount=2')
    assert irqs.fired == [9, 9]
    plan('point="load"\naction="interrupt"\nvector=9\ncount=0')
    assert irqs.fired == [9, 9]
    assert function.hca.events.interrupts is irqs


# -- traffic


def test_work_request_fails_at_its_turn(qps, plan, node):
    one, two = qps
    plan('point="wqe"\naction="fail"\nsyndrome="LOCAL_PROT_ERR"\nmatch.opcode="SEND"\nindex=2')
    region = node.region(4096)
    for _ in range(2):
        two.post_recv(region.sge())
        one.send(region.sge(0, 8))
    node.settle()
    opcodes = [(entry.opcode, getattr(entry, "syndrome", 0)) for entry in one.cq.drain()]
    assert (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_PROT_ERR) in opcodes
    assert one.state is QpState.ERR


def test_completion_becomes_an_error(qps, plan, node):
    one, two = qps
    plan('point="cqe"\naction="fail"\nsyndrome="REMOTE_OP_ERR"\nvendor=7\nmatch.opcode="REQ"')
    region = node.region(4096)
    two.post_recv(region.sge())
    one.send(region.sge(0, 8))
    node.settle()
    (entry,) = one.cq.drain()
    assert (entry.opcode, entry.syndrome) == (CqeOpcode.REQ_ERR, CqeSyndrome.REMOTE_OP_ERR)
    assert entry.vendor == 7
    assert one.state is QpState.ERR
    assert [entry.opcode for entry in two.cq.drain()] == [CqeOpcode.RESP_SEND]


def test_error_has_the_vendor_syndrome_that_belongs_to_it(qps, plan, node):
    one, two = qps
    plan('point="cqe"\naction="fail"\nsyndrome="REMOTE_OP_ERR"\nmatch.opcode="REQ"')
    region = node.region(4096)
    two.post_recv(region.sge())
    one.send(region.sge(0, 8))
    node.settle()
    assert [entry.vendor for entry in one.cq.drain()] == [0x89]


def test_completion_late_and_lost(qps, plan, node, clock):
    one, _ = qps
    region = node.region(4096)
    plan('point="cqe"\naction="delay"\nms=20\nmatch.opcode="REQ"\ntimes=1')
    one.write((region.key, region.va), region.sge(0, 8))
    node.settle()
    assert not one.cq.drain()
    clock.advance(21 * MS)
    assert len(one.cq.drain()) == 1
    plan('point="cqe"\naction="drop"')
    one.write((region.key, region.va), region.sge(0, 8))
    node.settle()
    assert not one.cq.drain()


class TestCompletionsInOrder:
    """A queue is a ring: what comes after a delayed completion waits behind it."""

    @pytest.fixture
    def write(self, qps, node):
        region = node.region(4096)

        def post(count=1):
            return [qps[0].write((region.key, region.va), region.sge(0, 8)) for _ in range(count)]

        return post

    def counters(self, qp):
        qp.node.settle()
        return [entry.wqe_counter for entry in qp.cq.drain()]

    def test_later_ones_wait(self, qps, plan, write, clock):
        one, _ = qps
        plan('point="cqe"\naction="delay"\nms=20\nmatch.opcode="REQ"\ntimes=1')
        sent = write(3)
        assert self.counters(one) == []
        clock.advance(20 * MS)
        assert self.counters(one) == sent

    def test_a_shorter_delay_ends_with_a_longer_one_before_it(
        self, qps, plan, faults, write, clock
    ):
        one, _ = qps
        plan(
            '[[rule]]\npoint="cqe"\naction="delay"\nms=20\ntimes=1\n'
            '[[rule]]\npoint="cqe"\naction="delay"\nms=5'
        )
        sent = write(2)
        assert self.counters(one) == []
        assert faults.held == 2
        clock.advance(6 * MS)
        assert self.counters(one) == []
        assert faults.held == 1
        clock.advance(10 * MS)
        sent += write()
        assert self.counters(one) == []
        clock.advance(4 * MS)
        assert self.counters(one) == sent[:2]
        clock.advance(1 * MS)
        assert self.counters(one) == sent[2:]

    def test_a_queue_without_a_delayed_one_goes_on(self, qps, plan, write, node, clock):
        one, two = qps
        region = node.region(4096)
        plan(f'point="cqe"\naction="delay"\nms=20\nmatch.qpn={one.qpn}\ntimes=1')
        (sent,) = write()
        two.write((region.key, region.va), region.sge(0, 8))
        assert len(self.counters(two)) == 1
        assert self.counters(one) == []
        clock.advance(20 * MS)
        assert self.counters(one) == [sent]

    def test_without_rules_later_ones_still_wait(self, qps, plan, faults, write, clock):
        one, _ = qps
        plan('point="cqe"\naction="delay"\nms=20\ntimes=1')
        sent = write()
        one.node.settle()
        faults.clear()
        sent += write(2)
        assert self.counters(one) == []
        clock.advance(20 * MS)
        assert self.counters(one) == sent
        assert one.node.hca.probes.faults is None

    def test_a_reset_forgets_them(self, qps, plan, faults, write, function, clock):
        one, _ = qps
        plan('point="cqe"\naction="delay"\nms=20\ntimes=1')
        write(3)
        one.node.settle()
        function.reset()
        faults.clear()
        assert function.hca.probes.faults is None
        clock.advance(20 * MS)
        assert not function.hca.health.internal_errors

    def test_without_rules_a_teardown_forgets_them(self, qps, plan, faults, write, function):
        one, _ = qps
        plan('point="cqe"\naction="delay"\nms=20\ntimes=1')
        write(3)
        one.node.settle()
        faults.clear()
        assert function.hca.probes.faults is faults
        one.node.driver.must(Op.TEARDOWN_HCA)
        assert function.hca.probes.faults is None


def test_plan_sees_completions_behind_those_before_it(qps, plan, node):
    """A queue whose entries follow each other in a page writes none of them unseen."""
    one, _ = qps
    region = node.region(4096)

    def write():
        one.write((region.key, region.va), region.sge(0, 8))
        node.settle()
        return len(one.cq.drain())

    assert [write(), write(), write()] == [1, 1, 1]
    plan('point="cqe"\naction="drop"\ntimes=2')
    assert [write(), write()] == [0, 0]


def test_a_blueflame_copy_is_one_doorbell(qps, plan, node):
    """Its other bytes are no doorbells that a rule could count."""
    one, _ = qps
    region = node.region(4096)
    plan('point="doorbell"\naction="drop"\nmatch.kind="send"\ntimes=1')
    one.write((region.key, region.va), region.sge(0, 8), ring=False)
    page = node.driver.uar * 4096
    node.driver.bar.write(page + 0x808, bytes(8))
    one.ring()
    node.settle()
    assert not one.cq.drain()


def test_doorbell_lost_and_late(qps, plan, node, clock):
    one, _ = qps
    region = node.region(4096)
    plan('point="doorbell"\naction="drop"\nmatch.kind="send"\ntimes=1')
    one.write((region.key, region.va), region.sge(0, 8))
    node.settle()
    assert not one.cq.drain()
    plan(f'point="doorbell"\naction="delay"\nms=7\nmatch={{kind="send", number={one.qpn}}}')
    one.ring()
    node.settle()
    assert not one.cq.drain()
    clock.advance(8 * MS)
    node.settle()
    assert len(one.cq.drain()) == 1


def test_dma_error_breaks_the_completion_queue_and_nobody_watches_any_more(
    qps, plan, node, memory, faults
):
    one, _ = qps
    region = node.region(4096)
    plan('point="dma.write"\naction="fail"\nmatch.length=63\ntimes=1')
    one.write((region.key, region.va), region.sge(0, 8))
    node.settle()
    assert node.events()[0] == (EventType.CQ_ERROR, one.cq.cqn)
    assert memory.is_watched
    faults.clear()
    assert not memory.is_watched


def test_dma_error_of_data_is_a_protection_error(qps, plan, node):
    one, _ = qps
    region = node.region(4096)
    one.write((region.key, region.va), region.sge(0, 64))
    node.settle()
    assert [entry.opcode for entry in one.cq.drain()] == [CqeOpcode.REQ]
    plan(f'point="dma.read"\naction="fail"\nmatch.address="{region.pages[0]}..{region.pages[0]}"')
    one.write((region.key, region.va), region.sge(0, 64))
    node.settle()
    (entry,) = one.cq.drain()
    assert entry.syndrome == CqeSyndrome.LOCAL_PROT_ERR


PACKET_RULES = [
    'point="pkt.tx"\naction="drop"\nmatch.kind="WRITE"\nindex=[2, 5]',
    'point="pkt.rx"\naction="drop"\nmatch.kind="ACKNOWLEDGE"\nindex=1',
    'point="pkt.tx"\naction="duplicate"\nmatch.kind="WRITE"\nindex=[1, 3]',
    'point="pkt.tx"\naction="reorder"\nmatch.kind="WRITE"\nindex=2',
    'point="pkt.tx"\naction="delay"\nms=1\nmatch.kind="WRITE"\nindex=3',
    'point="pkt.rx"\naction="corrupt"\nset.psn=5\nmatch.kind="WRITE"\nindex=2',
    'point="pkt.rx"\naction="rnr"\ntimer=1\nmatch.kind="WRITE"\nindex=1',
]


@pytest.mark.parametrize("rule", PACKET_RULES, ids=lambda rule: " ".join(rule.split()[:2]))
def test_reliable_traffic_survives_what_happens_to_packets(node, plan, clock, rule, fired):
    plan(rule)
    one, two = node.queue_pair(), node.queue_pair()
    connect(one, two, ack_timeout=8)
    source, target = node.region(16384), node.region(16384, va=0x6600_0000_0000)
    data = bytes(range(256)) * 64
    source.write(data)
    one.write((target.key, target.va), source.sge())
    for _ in range(40):
        run(node, clock, 5)
        clock.advance(MS)
    (entry,) = one.cq.drain()
    assert entry.opcode == CqeOpcode.REQ
    assert target.read() == data
    assert fired


def test_rnr_nak_counts_as_an_attempt(node, plan, clock):
    plan('point="pkt.rx"\naction="rnr"\nmatch.kind="WRITE"')
    one, two = node.queue_pair(), node.queue_pair()
    connect(one, two, rnr_retry=0)
    region = node.region(4096)
    one.write((region.key, region.va), region.sge(0, 16))
    run(node, clock)
    assert [entry.syndrome for entry in one.cq.drain()] == [CqeSyndrome.RNR_RETRY_EXC_ERR]


@pytest.mark.parametrize("state", [QpState.ERR, QpState.RST, QpState.INIT], ids=lambda s: s.name)
def test_no_rnr_nak_of_a_queue_pair_that_receives_nothing(node, plan, clock, state):
    """The requester gets no answer, and the responder's connection does not begin early."""
    plan('point="pkt.rx"\naction="rnr"\nmatch.kind="WRITE"')
    one, two = node.queue_pair(), node.queue_pair()
    connect(one, two, rnr_retry=0, retry_count=0)
    if state is QpState.ERR:
        two.to_error()
    else:
        two.to_reset()
        if state is QpState.INIT:
            two.init()
    responder = node.hca.qps.need(two.qpn)
    before, region = responder.connection, node.region(4096)
    one.write((region.key, region.va), region.sge(0, 16))
    for _ in range(5):
        run(node, clock, 5)
        clock.advance(1000 * MS)
    (entry,) = one.cq.drain()
    assert entry.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert responder.connection is before


def test_duplicate_gets_no_rnr_nak(node, plan, clock, fired):
    plan(
        '[[rule]]\npoint="pkt.tx"\naction="duplicate"\nmatch.kind="WRITE"\nindex=1\n'
        '[[rule]]\npoint="pkt.rx"\naction="rnr"\nmatch.kind="WRITE"\nindex=2\n'
    )
    one, two = node.queue_pair(), node.queue_pair()
    connect(one, two, rnr_retry=0, mtu=3)
    region = node.region(4096)
    one.write((region.key, region.va), region.sge(0, 2048))
    run(node, clock)
    assert [entry.opcode for entry in one.cq.drain()] == [CqeOpcode.REQ]
    assert [one.action for one in fired] == ["duplicate", "rnr"]


@pytest.mark.parametrize("to", ["tx", "rx"])
@pytest.mark.parametrize(
    ("at", "found"),
    [
        ("", "deadbeef" + 12 * "00"),
        ("at=13\n", 13 * "00" + "deadbe"),
        ("at=16\n", 16 * "00"),
        ("at=65535\n", 16 * "00"),
    ],
)
def test_payload_corrupted_in_silence(node, plan, clock, to, at, found):
    rule = f'point="pkt.{to}"\naction="corrupt"\n{at}'
    plan(f'{rule}set.payload="deadbeef"\nmatch.kind="WRITE"')
    one, two = node.queue_pair(), node.queue_pair()
    connect(one, two)
    source, target = node.region(4096), node.region(4096, va=0x6600_0000_0000)
    one.write((target.key, target.va), source.sge(0, 16))
    run(node, clock)
    assert target.read(0, 16) == bytes.fromhex(found)


def test_traffic_that_began_as_packets_goes_on_when_the_plan_ends(node, plan, clock, faults):
    plan('point="pkt.tx"\naction="drop"\nprobability=0')
    one, two = node.queue_pair(), node.queue_pair()
    connect(one, two)
    region = node.region(4096)
    for number in range(3):
        if number == 1:
            faults.clear()
        one.write((region.key, region.va), region.sge(0, 16))
        run(node, clock)
        assert [entry.opcode for entry in one.cq.drain()] == [CqeOpcode.REQ]
        two.write((region.key, region.va), region.sge(0, 16))
        run(node, clock)
        assert [entry.opcode for entry in two.cq.drain()] == [CqeOpcode.REQ]


def test_traffic_that_began_directly_becomes_packets(qps, plan, node, clock, fired):
    one, _ = qps
    region = node.region(4096)
    one.write((region.key, region.va), region.sge(0, 16))
    node.settle()
    plan('point="pkt.tx"\naction="drop"\nmatch.kind="WRITE"\ntimes=1')
    one.write((region.key, region.va), region.sge(0, 16))
    for _ in range(100):
        run(node, clock, 2)
        clock.advance(10 * MS)
    assert [entry.opcode for entry in one.cq.drain()] == [CqeOpcode.REQ] * 2
    assert len(fired) == 1


# -- the device as a whole


def test_health_buffer_and_counter(cold, plan, clock, faults):
    health = 0x200 + 0x3C
    counter = cold.read32(0x1010)
    clock.advance(1000 * MS)
    assert cold.read32(0x1010) != counter
    plan('point="load"\naction="health"\nsyndrome=8\nfatal=true\nseverity=2\nstalled=true\nms=5000')
    assert cold.read32(health) >> 16 & 0xFF == 8
    assert cold.read32(health - 4) >> 24 == 0x8A
    counter = cold.read32(0x1010)
    clock.advance(1000 * MS)
    assert cold.read32(0x1010) == counter
    clock.advance(4001 * MS)
    assert cold.read32(health) >> 16 & 0xFF == 0
    assert cold.read32(0x1010) != counter
    plan('point="load"\naction="health"\nsyndrome=1')
    faults.clear()
    assert cold.read32(health) >> 16 & 0xFF == 0


def test_register_set_while_the_driver_reads(cold, plan):
    plan('point="mmio.read"\naction="corrupt"\nmatch.register="fw_rev"\nset.value=0x12345678\n'
         "times=1")  # fmt: skip
    assert [cold.read32(0) == 0x12345678 for _ in range(2)] == [True, False]
    plan('point="load"\naction="registers"\nset.cmdq_addr_l_sz.nic_interface=7')
    assert cold.read32(0x14) >> 8 & 7 == 7


def test_device_memory_is_named_at_the_end_of_the_bar(driver, function, plan):
    plan('point="mmio.write"\naction="drop"\nmatch.register="memic"')
    end = function.bar_sizes[0]
    driver.must(Op.ALLOC_MEMIC, range_start_addr=end - 4096, range_size=4096, memic_size=4096)
    function.bar_write(0, end - 8, b"12345678")
    assert function.bar_read(0, end - 8, 8) == bytes(8), "lost"


def test_a_register_write_that_is_lost(driver, function, plan):
    plan('point="mmio.write"\naction="drop"\ntimes=1')
    before = driver.read32(0x14)
    for expected in (before, before ^ 1 << 12):
        driver.write32(0x14, before ^ 1 << 12)
        assert driver.read32(0x14) == expected


def test_nothing_is_written_while_it_is_gone(driver, function, plan):
    plan('point="cmd.done"\naction="gone"\nmatch.op="ALLOC_PD"')
    driver.command(Op.ALLOC_PD)
    before = function.bar0.read(0x14, 4)
    driver.write32(0x14, int.from_bytes(before, "big") ^ 1 << 12)
    assert function.bar0.read(0x14, 4) == before


def test_gone_from_the_bus_and_back(driver, function, plan, clock):
    plan('point="cmd.done"\naction="gone"\nms=100\nmatch.op="ALLOC_PD"')
    driver.command(Op.ALLOC_PD)
    assert driver.read32(0) == 0xFFFFFFFF
    assert function.config_read(0, 4) == b"\xff" * 4
    with pytest.raises(AssertionError, match="still owned by the device"):
        driver.command(Op.ALLOC_PD)
    clock.advance(101 * MS)
    assert driver.read32(0) != 0xFFFFFFFF
    assert not function.hca.pds


def test_function_level_reset_takes_long(driver, function, plan, clock):
    plan('point="power_on"\nmatch.cause="flr"\naction="gone"\nms=300')
    express = next(
        at for at in range(0x40, 0x100, 4) if function.config_read(at, 1) == b"\x10"
    )  # fmt: skip
    control = int.from_bytes(function.config_read(express + 8, 2), "little") | 1 << 15
    function.config_write(express + 8, control.to_bytes(2, "little"))
    assert function.config_read(0, 4) == b"\xff" * 4
    clock.advance(301 * MS)
    assert function.config_read(0, 4) != b"\xff" * 4


def test_firmware_starts_anew(driver, function, plan, clock):
    plan('point="cmd.done"\naction="restart"\nms=100\nmatch.op="ALLOC_PD"\ntimes=1')
    assert driver.command(Op.ALLOC_PD).status == 0
    clock.advance(101 * MS)
    assert not function.hca.pds
    assert driver.read32(0x14) >> 8 & 7 == 1
    driver.probe()


def test_link_flaps(node, plan, function, clock):
    plan('point="load"\naction="link"\nms=200')
    assert not function.hca.port.is_up
    clock.advance(201 * MS)
    assert function.hca.port.is_up


@pytest.mark.parametrize(
    "rule", ['action="link"\nms=9', 'action="restart"\nms=9', 'action="restart"']
)
def test_a_removed_rule_leaves_no_timer(function, plan, faults, clock, rule):
    """Neither the end of an effect nor a restart is still to come."""
    before = clock.waiting()
    for _ in range(3):
        plan(f'point="load"\n{rule}')
        faults.clear()
    assert (clock.waiting(), faults.effects._timers) == (before, {})
    assert function.hca.port.is_up


@pytest.mark.hostile
def test_the_effects_of_a_rule_that_always_fires_are_bounded(
    function, driver, plan, faults, monkeypatch
):
    monkeypatch.setattr(effects, "MAX_STARTED", 3)
    chip = function.hca.adapter.board.asic
    before = chip.temperature
    plan('point="cmd"\naction="temperature"\ncelsius=70')
    for _ in range(5):
        driver.must(Op.QUERY_ISSI)
    (counts,) = faults.listing()
    assert (counts["in_force"], counts["fired"], counts["without_effect"]) == (3, 3, 2)
    assert "3 effects" in counts["why"]
    faults.clear()
    assert (faults.in_force, chip.temperature) == (0, before)


def test_capabilities_are_lowered_and_come_back(cold, plan, function, faults):
    was = function.hca.caps.general.log_max_qp
    plan('point="load"\naction="capabilities"\nset.log_max_qp=4')
    assert function.hca.caps.general.log_max_qp == 4
    cold.probe()
    assert cold.caps.log_max_qp == 4
    faults.clear()
    assert function.hca.caps.general.log_max_qp == was


def test_firmware_starves_until_it_has_its_pages(driver, plan, node):
    eqn = node.driver.create_eq(events=[EventType.PAGE_REQUEST])
    plan('point="load"\naction="pages"\ncount=4\nstarve=true')
    (entry,) = node.driver.eqs[eqn].drain()
    assert entry.type == EventType.PAGE_REQUEST
    with pytest.raises(AssertionError, match="NO_RES_ERR"):
        node.region(4096)
    driver.give_pages(4)
    node.region(4096)


def test_aer_error_is_recorded(function, plan):
    plan('point="load"\naction="aer"\nerror="COMPLETION_TIMEOUT"')
    status = int.from_bytes(function.config_read(0x104, 4), "little")
    assert status >> 14 & 1


# -- rules


@pytest.mark.parametrize(
    ("words", "fires"),
    [
        ("", [1, 2, 3, 4, 5, 6]),
        ("times=2", [1, 2]),
        ("interval=2", [2, 4, 6]),
        ("space=3", [4, 5, 6]),
        ("space=1\ninterval=2\ntimes=1", [3]),
        ("index=[2, 4]", [2, 4]),
        ("probability=0", []),
    ],
)
def test_words_of_the_kernel(driver, plan, fired, words, fires):
    plan(f'point="cmd"\naction="fail"\nmatch.op="ALLOC_PD"\n{words}')
    for _ in range(6):
        driver.command(Op.ALLOC_PD)
    assert [one.n for one in fired] == fires


def test_dice_come_from_the_seed(driver, plan, fired):
    rule = '[[rule]]\npoint="cmd"\naction="fail"\nmatch.op="ALLOC_PD"\nprobability=50\n'
    runs = []
    for seed in (1, 1, 2):
        fired.clear()
        plan(f"seed={seed}\n{rule}")
        for _ in range(64):
            driver.command(Op.ALLOC_PD)
        runs.append([one.n for one in fired])
    assert runs[0] == runs[1] != runs[2]
    assert 16 < len(runs[0]) < 48


def test_no_rules_leave_nothing_behind(function, faults, plan, wire, irqs):
    plan('[[rule]]\npoint="pkt.tx"\naction="drop"\n[[rule]]\npoint="irq"\naction="drop"')
    assert function.hca.probes.faults is faults
    assert function.hca.wire is not wire
    faults.clear()
    assert (function.hca.probes.faults, function.hca.wire, function.hca.events.interrupts) == (
        None,
        wire,
        irqs,
    )


# -- rules whose time comes and goes


def test_a_rule_is_armed_after_and_until_so_many_commands(driver, plan, function):
    start = function.commands
    plan(f'point="cmd"\naction="fail"\nmatch.op="ALLOC_PD"\nafter={start + 2}\nuntil={start + 4}')
    answers = [driver.command(Op.ALLOC_PD).status for _ in range(5)]
    assert [status != 0 for status in answers] == [False, False, True, True, False]


def test_an_effect_begins_and_ends_with_its_rule(driver, plan, function):
    start = function.commands
    plan(f'point="load"\naction="health"\nsyndrome=8\nafter={start + 1}\nuntil={start + 2}')
    seen = []
    for _ in range(3):
        seen.append(function.bar0.segment.health.synd)
        driver.command(Op.ALLOC_PD)
    assert seen == [0, 8, 0]


def test_commands_are_counted_across_resets(driver, function):
    driver.command(Op.ALLOC_PD)
    count = function.commands
    assert count > 0
    function.reset()
    assert function.commands == count


def test_what_is_held_back_and_in_force_is_told(node, plan, faults, clock):
    node.driver.use_events()
    plan('[[rule]]\nname="late"\npoint="cmd.completion"\naction="delay"\nms=5\ntimes=1\n'
         '[[rule]]\nname="down"\npoint="load"\naction="link"\nms=9')  # fmt: skip
    late, down = faults.states
    assert faults.counts_of(down)["in_force"] == 1
    node.driver.command(Op.ALLOC_PD)
    assert (faults.held, faults.counts_of(late)["held"], faults.counts_of(late)["armed"]) == (
        1,
        1,
        False,
    )
    clock.advance(10 * MS)
    assert (faults.held, faults.effects.count) == (0, 0)
