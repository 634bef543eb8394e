"""DC: initiators that send to any target, what targets take, and streams that fail alone."""

from pathlib import Path

import pytest
from helpers.device.ibta import ACK_TIMEOUT_UNIT_NS
from helpers.device.refusals import missing

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.driver.command.answer import DriverCommandError
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.nodes.roce import on_one_segment
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.completions import ERRORS
from emu.driver.verbs.dynamic import ACCESS_KEY, Initiator, Target
from emu.driver.world.cable import set_link
from emu.instruments.chaos.moments import moved
from emu.server.net.ib.local import LocalFabric
from layouts.enums.cmd import Op, Status
from layouts.enums.cq import CqStatus
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.objects.qp import qpc_ext

MIB = 1 << 20
PLANS = Path(__file__).parents[3] / "examples/faults"
MORE_THAN_TWO_POLLS = 9 * MIB
"""Length of a message that is in progress when a command comes after one round."""
DCI_STREAM_CHANNEL_ID, QOS_QUEUE_GROUP_ID = 1 << 0, 1 << 1
"""Bits of opt_param_mask_95_32 (rdma-core, providers/mlx5/mlx5_ifc.h)."""
TEXT = bytes(range(256)) * 16


@pytest.fixture(params=["ib", "roce"])
def ends(request, model, clock):
    """Two functions of one process."""
    if request.param == "roce":
        return on_one_segment(clock)
    wire = LocalFabric(clock)
    return two_nodes(model, clock, wire)


@pytest.fixture
def left(ends):
    return ends[0]


@pytest.fixture
def right(ends):
    return ends[1]


@pytest.fixture
def target(right):
    return Target(right)


@pytest.fixture
def initiator(left, target):
    return Initiator(left, target)


def done(initiator):
    """How its requests have ended, without an error."""
    initiator.node.settle()
    found = initiator.cq.drain()
    assert [one for one in found if one.opcode in ERRORS] == []
    return found


def test_connects_are_counted(left, right):
    """Each initiator that turns to the target makes a connection there (hw_counters)."""
    number = right.driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    counted, other = Target(right, counter_set_id=number), Target(right)

    def connects():
        return right.driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number).rx_dct_connect

    initiator = Initiator(left, counted)
    target_memory, memory = right.region(4096), left.region(4096)
    remote = (target_memory.key, target_memory.va)

    def write(to):
        initiator.to = to
        initiator.write(remote, memory.sge(0, 8))
        assert done(initiator)

    for to, expected in ((counted, 1), (counted, 1), (other, 1), (counted, 2)):
        write(to)
        assert connects() == expected
    second = Initiator(left, counted)
    second.write(remote, memory.sge(0, 8))
    assert done(second)
    assert connects() == 3


def syndromes(initiator):
    initiator.node.settle()
    return [CqeSyndrome(one.syndrome) for one in initiator.cq.drain()]


def remote(region):
    return region.key, region.va


def torn_down(node):
    node.driver.must(Op.TEARDOWN_HCA)


def up_again(node, other):
    """The next driver of a function, with the same memory."""
    bar = FunctionBar(node.function, other.function)
    driver = Driver(bar, node.memory, node.function.interrupts)
    node.memory._next = node.memory.base
    return type(node)(node.function, driver.probe())


class TestTraffic:
    def test_write_and_read(self, initiator, left, right):
        source, place, back = left.region(4096), right.region(4096), left.region(4096)
        source.write(TEXT)
        initiator.write(remote(place), source.sge())
        initiator.read(remote(place), back.sge())
        assert len(done(initiator)) == 2
        assert place.read() == back.read() == TEXT

    @pytest.mark.parametrize("mtu", [1, 5])
    def test_path_mtu_that_is_not_the_targets(self, left, right, mtu):
        """A READ's response has another length than one of the two expects (IBTA 9.7.4.1.6)."""
        initiator = Initiator(left, Target(right, mtu=mtu))
        smaller = min(1024, 128 << mtu)
        memory, place = left.region(4096), right.region(4096)
        initiator.read(remote(place), memory.sge(0, smaller))
        assert len(done(initiator)) == 1
        initiator.read(remote(place), memory.sge(0, smaller + 1))
        assert syndromes(initiator) == [CqeSyndrome.BAD_RESP_ERR]

    def test_atomics(self, initiator, left, right):
        place, back = right.region(64), left.region(64)
        initiator.fetch_add(remote(place), back.sge(0, 8), 5)
        initiator.compare_swap(remote(place), back.sge(8, 8), 5, 9)
        assert len(done(initiator)) == 2
        assert place.read(0, 1) == b"\x09"
        assert back.read(8, 1) == b"\x05"

    def test_send_fills_a_request_of_the_targets_shared_queue(self, initiator, target, right):
        place = right.region(64)
        index = target.srq.post(place.sge())
        initiator.send(b"hello", imm=7)
        assert len(done(initiator)) == 1
        (found,) = target.cq.drain()
        assert found.opcode is CqeOpcode.RESP_SEND_IMM
        assert (found.qpn, found.wqe_counter, found.srqn) == (target.dctn, index, target.srq.srqn)
        assert (found.byte_cnt, found.immediate) == (5, 7)
        assert found.flags_rqpn & 0xFFFFFF == initiator.qpn
        assert place.read(0, 5) == b"hello"

    def test_each_request_names_its_target(self, initiator, target, left, right):
        other = Target(left)  # of the initiator's own function
        for one in (target, other, target):
            one.srq.post(one.node.region(64).sge())
            initiator.to = one
            initiator.send(b"hello")
        assert len(done(initiator)) == 3
        assert len(target.cq.drain()) == 2
        assert len(other.cq.drain()) == 1

    def test_long_messages_of_two_initiators_do_not_mix(self, target, left, right):
        """Each begins while the other is half done: both have responders of their own."""
        length = 6 * MIB
        places = [right.region(length, va=0x10_0000_0000 + n * 16 * MIB) for n in range(2)]
        for place in places:
            target.srq.post(place.sge())
        sources, initiators = [], []
        for number in range(2):
            source = left.region(length, va=0x20_0000_0000 + number * 16 * MIB)
            source.write(bytes((number + 1,)) * length)
            sources.append(source)
            initiators.append(Initiator(left, target))
        for initiator, source in zip(initiators, sources, strict=True):
            initiator.send(source.sge())
        assert [len(done(initiator)) for initiator in initiators] == [1, 1]
        found = target.cq.drain()
        assert {one.flags_rqpn & 0xFFFFFF for one in found} == {one.qpn for one in initiators}
        assert {place.read(0, length) for place in places} == {
            bytes((number,)) * length for number in (1, 2)
        }


class TestErrors:
    def test_no_receive_request_is_waited_for(self, initiator, target, right, clock):
        initiator.send(b"late")
        assert done(initiator) == []
        target.srq.post(right.region(64).sge())
        clock.advance(1_000_000)
        assert len(done(initiator)) == 1

    def test_refused_access_stops_the_initiator_and_not_the_target(self, target, left, right):
        bad, good = Initiator(left, target), Initiator(left, target)
        place, source = right.region(64), left.region(64)
        bad.write((place.key ^ 1, place.va), source.sge())
        assert syndromes(bad) == [CqeSyndrome.REMOTE_ACCESS_ERR]
        assert bad.state is QpState.ERR
        good.write(remote(place), source.sge())
        assert len(done(good)) == 1
        assert right.events() == []

    def test_target_decides_which_accesses_it_allows(self, left, right):
        target = Target(right, rwe=0)
        initiator, place = Initiator(left, target), right.region(64)
        initiator.write(remote(place), left.region(64).sge())
        assert syndromes(initiator) == [CqeSyndrome.REMOTE_INVAL_REQ_ERR]

    def test_a_message_that_is_too_long_completes_its_receive_request_in_error(
        self, initiator, target, left, right
    ):
        target.srq.post(right.region(64).sge(0, 4))
        initiator.send(left.region(64).sge())
        assert syndromes(initiator) == [CqeSyndrome.REMOTE_INVAL_REQ_ERR]
        (found,) = target.cq.drain()
        assert found.syndrome == CqeSyndrome.LOCAL_LENGTH_ERR

    @pytest.mark.parametrize("what", ["key", "number", "drained", "destroyed"])
    def test_no_response(self, left, right, target, clock, what):
        initiator = Initiator(left, target, ack_timeout=10, retry_count=2)
        if what == "key":
            initiator.key += 1
        elif what == "number":
            target.dctn += 1
        else:
            target.drain()
            if what == "destroyed":
                target.destroy()
        initiator.write((0x100, 0), left.region(64).sge())
        left.settle()
        for _ in range(3):
            clock.advance(ACK_TIMEOUT_UNIT_NS << 10)
            left.settle()
        assert syndromes(initiator) == [CqeSyndrome.TRANSPORT_RETRY_EXC_ERR]
        if what == "key":
            assert target.query().dc_access_key_violation_count == 3

    @pytest.mark.parametrize("whose", ["left", "right"])
    def test_a_link_that_is_down(self, left, right, target, clock, whose):
        initiator = Initiator(left, target, ack_timeout=10, retry_count=0)
        place = right.region(64)
        set_link({"left": left, "right": right}[whose].hca, up=False)
        initiator.write(remote(place), b"12345678")
        left.settle()
        clock.advance(ACK_TIMEOUT_UNIT_NS << 10)
        assert syndromes(initiator) == [CqeSyndrome.TRANSPORT_RETRY_EXC_ERR]
        assert not any(place.read())

    def test_a_target_whose_completions_go_nowhere(self, left, right, target, clock):
        """Its CQ has failed, so it takes no more messages."""
        initiator = Initiator(left, target, ack_timeout=10, retry_count=0)
        place = right.region(64)
        right.hca.cqs.get(target.cq.cqn).status = CqStatus.CQ_OVERFLOW
        initiator.write(remote(place), b"12345678")
        left.settle()
        clock.advance(ACK_TIMEOUT_UNIT_NS << 10)
        assert syndromes(initiator) == [CqeSyndrome.TRANSPORT_RETRY_EXC_ERR]
        assert not any(place.read())

    def test_nobody_at_the_address(self, left, target, clock):
        nobody = left.vector_to(target.node) | {"rlid": 0x55, "rmac": bytes([2] * 6)}
        left.vector_to = lambda node: nobody
        initiator = Initiator(left, target, ack_timeout=10, retry_count=0)
        initiator.write((0x100, 0), left.region(64).sge())
        left.settle()
        clock.advance(ACK_TIMEOUT_UNIT_NS << 10)
        assert syndromes(initiator) == [CqeSyndrome.TRANSPORT_RETRY_EXC_ERR]

    def test_without_a_timeout_it_waits_for_ever(self, left, target, clock):
        """Code 0 is "infinite" (IBTA 11.6.2, local ACK timeout)."""
        initiator = Initiator(left, target, ack_timeout=0, retry_count=0)
        target.drain()
        initiator.write((0x100, 0), left.region(64).sge())
        left.settle()
        clock.advance(1 << 40)
        assert syndromes(initiator) == []
        assert initiator.state is QpState.RTS

    def test_a_target_that_goes_while_a_message_is_on_its_way(self, left, right, clock):
        target = Target(right)
        initiator = Initiator(left, target, ack_timeout=10, retry_count=0)
        length = 6 * MIB
        target.srq.post(right.region(length).sge())
        initiator.send(left.region(length).sge())
        left.function.run()
        target.drain()
        target.destroy()
        right.driver.must(Op.DESTROY_RMP, rmpn=target.srq.srqn)
        left.settle()
        clock.advance(ACK_TIMEOUT_UNIT_NS << 10)
        assert syndromes(initiator) == [CqeSyndrome.TRANSPORT_RETRY_EXC_ERR]
        assert target.cq.drain() == []

    def test_reset_in_the_middle_gives_the_receive_request_back(self, left, right, target):
        initiator, length = Initiator(left, target), MORE_THAN_TWO_POLLS
        target.srq.post(right.region(length).sge())
        initiator.send(left.region(length).sge())
        left.function.run()
        initiator.to_reset()
        initiator.start()
        initiator.send(b"again")
        assert len(done(initiator)) == 1
        assert [one.byte_cnt for one in target.cq.drain()] == [5]

    @pytest.mark.parametrize("reset", [lambda node: node.function.reset(), torn_down])
    def test_functions_that_stop_in_the_middle_take_no_requests_with_them(
        self, left, right, target, reset
    ):
        """The target's shared queue is another guest's: it still has all requests afterwards."""
        place = right.region(MORE_THAN_TWO_POLLS)
        for _ in range(4):
            target.srq.post(place.sge())
        for _ in range(5):
            Initiator(left, target).send(left.region(MORE_THAN_TWO_POLLS).sge())
            left.function.run()
            reset(left)
            left.function.run()
            assert right.hca.srqs.get(target.srq.srqn).queue.posted() == 4
            left = up_again(left, right)
        assert target.cq.drain() == []

    @pytest.mark.parametrize("operation", ["send", "write"])
    def test_a_new_driver_gets_the_message_from_its_beginning_or_not_at_all(
        self, left, right, clock, operation
    ):
        """Number and access key of its target are those of the old driver's."""
        target, length = Target(right), 6 * MIB
        initiator = Initiator(left, target, ack_timeout=10, retry_count=7)
        source, old = left.region(length), right.region(length, va=1 << 40)
        source.write(TEXT * (length // len(TEXT)))
        target.srq.post(old.sge())
        if operation == "send":
            initiator.send(source.sge())
        else:
            initiator.write(remote(old), source.sge(), imm=7)
        left.function.run()
        torn_down(right)
        before = right.memory.contents()
        left.function.run()
        assert right.memory.contents() == before
        right = up_again(right, left)
        again = Target(right)
        new = right.region(length, va=1 << 40)
        assert (again.dctn, new.key) == (target.dctn, old.key)
        again.srq.post(new.sge())
        right.settle()
        clock.advance(ACK_TIMEOUT_UNIT_NS << 10)
        assert len(done(initiator)) == 1
        (found,) = again.cq.drain()
        assert found.opcode not in ERRORS
        assert new.read() == source.read()
        clock.advance(ACK_TIMEOUT_UNIT_NS << 14)
        left.settle()
        assert again.cq.drain() == initiator.cq.drain() == []

    def test_others_are_not_spoken_to(self, left, right, target):
        """A connected queue pair does not reach a target, nor an initiator."""
        initiator = Initiator(left, target)
        for number in (target.dctn, initiator.qpn):
            sender = left.queue_pair(QpType.RC)
            node = right if number == target.dctn else left
            sender.init()
            sender.to_rtr(qpn=number, path=left.path_to(node))
            sender.to_rts(ack_timeout=0)
            sender.write((0x100, 0), left.region(64).sge())
            left.settle()
            assert sender.cq.drain() == []


class TestStreams:
    def fail(self, initiator, stream, right):
        initiator.stream = stream
        initiator.write((right.region(64).key ^ 1, 0), b"1234")
        return syndromes(initiator)

    def works(self, initiator, stream, right):
        initiator.stream = stream
        initiator.write(remote(right.region(64)), b"1234")
        return len(done(initiator)) == 1

    def reset(self, initiator, stream, **fields):
        return initiator.node.driver.command(
            Op.RTS2RTS_QP, qpn=initiator.qpn,
            qpc_data_ext=bytes(qpc_ext.new(dci_stream_channel_id=stream)),
            **{"qpc_ext": 1, "opt_param_mask_95_32": DCI_STREAM_CHANNEL_ID} | fields,
        )  # fmt: skip

    def test_a_request_that_fails_stops_its_stream(self, left, right, target):
        initiator = Initiator(left, target, streams=(3, 2))
        assert self.fail(initiator, 1, right) == [CqeSyndrome.REMOTE_ACCESS_ERR]
        assert self.fail(initiator, 1, right) == [CqeSyndrome.WR_FLUSH_ERR]
        assert initiator.state is QpState.RTS
        assert self.works(initiator, 2, right)
        assert not self.reset(initiator, 1).status
        assert self.works(initiator, 1, right)

    def test_one_stream_too_many_stops_the_queue_pair(self, left, right, target):
        initiator = Initiator(left, target, streams=(3, 1))
        for stream in (1, 2):
            assert self.fail(initiator, stream, right) == [CqeSyndrome.REMOTE_ACCESS_ERR]
        assert initiator.state is QpState.ERR
        initiator.to_reset()
        initiator.start()
        assert self.works(initiator, 1, right)

    def test_no_more_streams_than_advertised(self, left):
        """mlx5_ib passes on what the process wants."""
        general = left.hca.caps.general
        limits = general.log_max_dci_stream_channels, general.log_max_dci_errored_streams
        Initiator(left, streams=limits)
        for channels, errored in ((1, 0), (0, 1), (26, 26)):
            with pytest.raises(DriverCommandError, match="LIM_ERR"):
                Initiator(left, streams=(limits[0] + channels, limits[1] + errored))

    def test_only_a_failed_stream_is_reset(self, left, right, target):
        initiator = Initiator(left, target, streams=(3, 2))
        self.fail(initiator, 1, right)
        assert self.reset(initiator, 2).status == Status.BAD_RES_STATE_ERR
        assert self.reset(initiator, 1, qpc_ext=0).status == Status.BAD_RES_STATE_ERR
        plain = Initiator(left, target)
        assert self.reset(plain, 0).status == Status.BAD_RES_STATE_ERR

    def test_a_command_that_is_refused_resumes_no_stream(self, left, right, target):
        """The stream is right, but no queue group takes a DC initiator."""
        initiator = Initiator(left, target, streams=(3, 2))
        self.fail(initiator, 1, right)
        both = DCI_STREAM_CHANNEL_ID | QOS_QUEUE_GROUP_ID
        refused = self.reset(initiator, 1, opt_param_mask_95_32=both)
        assert refused.status == Status.BAD_PARAM_ERR
        assert self.fail(initiator, 1, right) == [CqeSyndrome.WR_FLUSH_ERR]


class TestCommands:
    def test_the_driver_waits_for_an_event_before_it_destroys_a_target(self, right):
        right.driver.create_eq(log_size=4, events=(EventType.DCT_DRAINED,))
        target = Target(right)
        target.drain()
        right.settle()
        ((_number, entry),) = [
            (number, entry)
            for number, queue in right.driver.eqs.items()
            for entry in queue.drain()
            if entry.type == EventType.DCT_DRAINED
        ]
        assert int.from_bytes(bytes(entry.data)[24:28], "big") == target.dctn
        target.destroy()

    def test_what_a_target_has_cannot_be_destroyed(self, right, target):
        refused = right.driver.command(Op.DESTROY_RMP, rmpn=target.srq.srqn)
        assert refused.status == Status.BAD_RES_STATE_ERR
        assert target.query().dc_access_key == ACCESS_KEY

    @pytest.mark.parametrize(
        ("status", "context"),
        [
            (Status.BAD_PARAM_ERR, {"mtu": 0}),
            (Status.BAD_PARAM_ERR, {"mtu": 6}),
            (Status.BAD_PARAM_ERR, {"port": 2}),
            (Status.BAD_PARAM_ERR, {"pkey_index": 128}),
            (Status.BAD_PARAM_ERR, {"my_addr_index": 255}),
            (Status.BAD_RES_ERR, {"pd": 0xFFFF}),
            (Status.BAD_RES_ERR, {"cqn": 0xFFFF}),
            (Status.BAD_RES_ERR, {"srqn_xrqn": 0}),
            (Status.BAD_RES_ERR, {"counter_set_id": 0xFF}),
        ],
    )
    def test_refused(self, right, target, status, context):
        before = len(right.hca.dcts)
        answer = right.driver.command(Op.CREATE_DCT, **target.fields(**context))
        assert (answer.delivery, answer.status) == (0, status)
        assert len(right.hca.dcts) == before

    def test_port_that_is_left_open(self, right, target):
        """UCX sets none unless it has several ports to choose from."""
        right.driver.must(Op.CREATE_DCT, **target.fields(port=0))

    def test_unknown_numbers(self, right, target):
        for op in (Op.QUERY_DCT, Op.DRAIN_DCT, Op.DESTROY_DCT):
            assert right.driver.command(op, dctn=target.dctn + 1).status == missing(op)


RULES = {
    "wqe": 'point = "wqe"\naction = "fail"\nindex = [1000]\nmatch.service = ["RC", "DCI"]',
    "cqe": 'point = "cqe"\naction = "drop"\nindex = [1000]',
    "pkt.tx": 'point = "pkt.tx"\naction = "drop"\nindex = [1000]',
    "pkt.rx": 'point = "pkt.rx"\naction = "drop"\nindex = [1000]',
}


def faulty(rule, *nodes):
    """Load a rule into each function."""
    for node in nodes:
        injector = Injector(node.function)
        node.function.use_faults(injector)
        injector.load(load(f"[[rule]]\n{rule}"))


class TestRules:
    @pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
    @pytest.mark.parametrize("ends_with", ["initiator", "target", "both"])
    def test_a_rule_that_does_not_fire_changes_nothing(
        self, rule, ends_with, left, right, initiator, target
    ):
        chosen = {"initiator": [left], "target": [right], "both": [left, right]}
        faulty(rule, *chosen[ends_with])
        source, place, text = left.region(4096), right.region(4096), right.region(64)
        source.write(TEXT)
        target.srq.post(text.sge())
        initiator.write(remote(place), source.sge())
        initiator.send(b"hello")
        assert len(done(initiator)) == 2
        assert len(target.cq.drain()) == 1
        assert place.read() == TEXT

    def test_a_completion_of_the_target_is_late(self, left, right, initiator, target, clock):
        """The initiator's responder has ended by then; the target has not."""
        faulty('point = "cqe"\naction = "delay"\nms = 1', right)
        target.srq.post(right.region(64).sge())
        initiator.send(b"hello")
        assert len(done(initiator)) == 1
        left.driver.must(Op._2RST_QP, qpn=initiator.qpn)
        assert target.cq.drain() == []
        clock.advance(2_000_000)
        right.settle()
        assert len(target.cq.drain()) == 1

    def test_a_completion_of_the_target_fails(self, right, initiator, target):
        """The target goes on: the failure is one of the initiator's responder."""
        rule = 'point = "cqe"\naction = "fail"\nsyndrome = "LOCAL_PROT_ERR"\ntimes = 1'
        faulty(rule, right)
        for _ in range(2):
            target.srq.post(right.region(64).sge())
            initiator.send(b"hello")
            initiator.node.settle()
        first, second = target.cq.drain()
        assert (first.opcode, first.syndrome) == (CqeOpcode.RESP_ERR, CqeSyndrome.LOCAL_PROT_ERR)
        assert second.opcode is CqeOpcode.RESP_SEND

    @pytest.mark.parametrize(
        ("name", "seen"),
        [("completion-lost", []), ("completion-local-prot", [CqeSyndrome.LOCAL_PROT_ERR])],
    )
    def test_plans_of_completions_strike_initiators(self, name, seen, left, right, initiator):
        plan = load((PLANS / f"{name}.toml").read_text())
        injector = Injector(left.function)
        left.function.use_faults(injector)
        injector.load(moved(plan, 1))
        initiator.write(remote(right.region(64)), left.region(64).sge())
        assert syndromes(initiator) == seen
