"""Completion queues at work: entries, events, moderation, resize, overrun (hw/cq.c)."""

import pytest

from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import STEPS_PER_STOP
from emu.driver.command.words import pack64
from emu.driver.verbs.completions import SOLICITED_ONLY
from emu.driver.verbs.connect import connect
from emu.driver.verbs.segments import SOLICITED
from layouts.enums.cmd import Op, Status
from layouts.enums.cq import CqStatus
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import CqErrorSyndrome, EventType
from layouts.enums.qp import QpState
from layouts.function.hca import query_issi_in, query_issi_out
from layouts.rings.eqe import eqe_cq_err
from layouts.rings.wqe import DATA

US = 1000
PERIOD, COUNT, OVERRUN, PERIOD_MODE = 1, 2, 4, 16


class Pair:
    """Two connected queue pairs: the left one sends, ``queue`` takes the right one's receives."""

    def __init__(self, node, queue):
        self.node, self.queue = node, queue
        self.left, self.right = node.queue_pair(), node.queue_pair(rcq=queue)
        connect(self.left, self.right)
        self.region = node.region(4096)

    def send(self, count=1, *, solicited=False):
        """``count`` messages arrive."""
        flags = SOLICITED if solicited else 0
        for _ in range(count):
            self.right.post_recv(self.region.sge(0, 64))
            self.left.send(self.region.sge(0, 8), flags=flags)
            self.node.settle()


@pytest.fixture
def log_size():
    return 4


@pytest.fixture
def context():
    """Fields of the queue's context that a test wants."""
    return {}


@pytest.fixture(params=[0, 1, 2], ids=["narrow", "wide", "padded"])
def queue(node, log_size, context, request):
    return node.completion_queue(log_size, cqe_sz=request.param, **context)


@pytest.fixture
def pair(node, queue):
    return Pair(node, queue)


def test_many_laps_of_the_ring(pair, queue):
    """The owner bit changes with each lap; nothing is lost or seen twice."""
    for number in range(5 * 16):
        pair.send()
        completion = queue.poll()
        assert completion.opcode == CqeOpcode.RESP_SEND
        assert completion.wqe_counter == number
        assert completion.qpn == pair.right.qpn
        assert queue.poll() is None


def test_full_ring_and_not_one_entry_more(pair, queue):
    for _ in range(3):
        pair.send(16)
        assert len(queue.drain()) == 16
    assert pair.node.events() == []


def test_consumer_index_is_read_only_when_room_may_be_short(pair, queue, node):
    """Each completion would cost a read of the guest's memory."""
    reads = []

    def look(address, _length, is_write):
        if address == queue.record and not is_write:
            reads.append(address)

    node.memory.watch(look)
    pair.send(16)
    assert reads == []
    assert len(queue.drain()) == 16
    pair.send()
    assert len(reads) == 1


@pytest.mark.parametrize("cqe_sz", [1, 2])
def test_wide_entries_leave_their_first_half_alone(node, cqe_sz):
    queue = node.completion_queue(2, cqe_sz=cqe_sz)
    Pair(node, queue).send(3)
    for number in range(3):
        page = queue.pages[0]
        assert node.memory.read(page + 128 * number, 64) == bytes(63) + b"\xf1"
    assert len(queue.drain()) == 3


def test_timestamp_is_the_internal_timer(pair, queue, clock, driver):
    """CQE and initialization segment tell the same time (rdma-core: mlx5dv_ts_to_ns)."""
    clock.advance(1 << 33)
    pair.send()
    high, low = driver.read32(0x1000), driver.read32(0x1004)
    assert queue.poll().timestamp == high << 32 | low == clock.ns * 156_250 // 1_000_000


@pytest.mark.parametrize("context", [{"cqe_comp_en": 1}])
def test_messages_are_not_compressed(pair, queue):
    """libmlx5 has no reader for that (providers/mlx5/cq.c)."""
    for _ in range(8):
        pair.right.post_recv(pair.region.sge(0, 64))
    for _ in range(8):
        pair.left.send(pair.region.sge(0, 8), ring=False)
    pair.left.ring()
    pair.node.settle()
    assert [done.byte_cnt for done in queue.drain()] == [8] * 8


# Events: one for each arm.


def test_no_event_without_arm(pair, queue):
    pair.send()
    assert queue.events() == 0


def test_one_event_for_each_arm(pair, queue):
    queue.arm()
    assert queue.events() == 0
    pair.send(3)
    assert queue.events() == 1
    queue.drain()
    queue.arm()
    assert queue.events() == 0
    pair.send()
    assert queue.events() == 1


def test_events_of_another_queue_wait_for_it(node, pair, queue):
    other = node.completion_queue()
    second = Pair(node, other)
    for one in (queue, other):
        one.arm()
    pair.send()
    second.send()
    assert (queue.events(), other.events()) == (1, 1)
    assert (queue.events(), other.events()) == (0, 0)
    other.drain()
    other.arm()
    second.send()
    assert queue.events() == 0
    assert other.events() == 1


def test_arm_with_entries_that_the_driver_has_not_seen(pair, queue):
    """Between the last poll and the arm an entry came: the event must not be missed."""
    pair.send()
    queue.poll()
    pair.send()
    queue.arm()
    assert queue.events() == 1


def test_arm_before_the_poll_is_not_told_the_same_twice(pair, queue):
    """perftest takes the event, arms, and polls once: an idle event would put it out of step."""
    queue.arm()
    for _ in range(3):
        pair.send()
        assert queue.events() == 1
        queue.arm()
        assert queue.events() == 0
        assert queue.poll()


def test_arm_before_the_poll_when_more_has_come(pair, queue):
    queue.arm()
    pair.send(2)
    assert queue.events() == 1
    queue.arm()
    assert queue.events() == 1


def test_arm_says_how_far_the_driver_has_read(pair, queue):
    """Without the doorbell record: the doorbell itself carries the consumer index."""
    pair.send(3)
    while queue.poll(update_record=False):
        pass
    queue.arm()
    assert queue.events() == 0


def test_arm_in_two_halves(pair, queue, driver):
    """As 32-bit processors write it (doorbell.h: mlx5_write64)."""
    for at, half in ((0x20, SOLICITED_ONLY), (0x24, queue.cqn)):
        assert queue.events() == 0
        driver.bar.write(driver.uar * 4096 + at, half.to_bytes(4, "big"))
        pair.send(solicited=True)
    assert queue.events() == 1


def test_solicited_arm_waits_for_a_solicited_message(pair, queue):
    queue.arm(solicited=True)
    pair.send(2)
    assert queue.events() == 0
    pair.send(solicited=True)
    assert queue.events() == 1


def test_solicited_arm_after_a_solicited_message(pair, queue):
    pair.send(solicited=True)
    pair.send()
    queue.arm(solicited=True)
    assert queue.events() == 1


def test_solicited_arm_after_messages_that_are_not(pair, queue):
    pair.send(2)
    queue.arm(solicited=True)
    assert queue.events() == 0


def test_any_arm_replaces_a_solicited_one(pair, queue):
    queue.arm(solicited=True)
    queue.arm()
    pair.send()
    assert queue.events() == 1


def test_solicited_arm_does_not_replace_one_for_any(pair, queue):
    queue.arm()
    queue.arm(solicited=True)
    pair.send()
    assert queue.events() == 1


def test_error_counts_as_solicited(pair, queue):
    queue.arm(solicited=True)
    pair.right.post_recv(pair.region.sge(0, 4))
    pair.left.send(pair.region.sge(0, 8))
    pair.node.settle()
    assert queue.events() == 1
    assert queue.poll().opcode == CqeOpcode.RESP_ERR


@pytest.mark.parametrize("ahead", [1, 17, 1 << 23])
def test_doorbell_that_cannot_be_true_arms_nothing(pair, queue, ahead, caplog):
    pair.send()
    queue.ci += ahead + 1
    queue.arm()
    queue.ci -= ahead + 1
    pair.send()
    assert queue.events() == 0
    assert "consumer index past producer index" in caplog.text
    assert len(queue.drain()) == 2


def test_doorbell_in_another_page(pair, queue, driver, caplog):
    """It arms nothing, and the queue's own page still does."""
    own, driver.uar = driver.uar, driver.must(Op.ALLOC_UAR).uar
    queue.arm()
    driver.uar = own
    assert "doorbell ignored: sent through UAR" in caplog.text
    pair.send()
    assert queue.events() == 0
    queue.arm()
    assert queue.events() == 1


def test_doorbell_of_a_queue_that_is_gone(node, queue, caplog):
    node.driver.must(Op.DESTROY_CQ, cqn=queue.cqn)
    queue.arm()
    assert "CQ doorbell ignored" in caplog.text
    assert queue.events() == 0


def test_query_tells_what_the_queue_waits_for(pair, queue, driver):
    def context():
        return driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context

    assert (context().st, context().status) == (0xA, CqStatus.OK)
    queue.arm(solicited=True)
    assert context().st == 0x6
    queue.arm()
    assert context().st == 0x9
    pair.send(2)
    queue.poll()
    queue.arm()
    assert (context().producer_counter, context().consumer_counter) == (2, 1)
    assert context().last_notified_index == 2
    pair.send(solicited=True)
    pair.send()
    assert (context().last_notified_index, context().last_solicit_index) == (2, 3)


# Overrun.


@pytest.mark.parametrize("log_size", [1])
def test_overrun_breaks_the_queue_and_who_reports_there(pair, queue, clock, driver):
    bystander = Pair(pair.node, pair.node.completion_queue(4))
    pair.send(3)
    clock.advance(0)
    pair.node.settle()
    assert pair.node.events() == [
        (EventType.CQ_ERROR, queue.cqn),
        (EventType.WQ_CATAS_ERROR, pair.right.qpn),
    ]
    assert len(queue.drain()) == 2
    assert pair.right.state == QpState.ERR
    assert driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context.status == CqStatus.CQ_OVERFLOW
    pair.send()
    assert queue.poll() is None
    assert pair.node.events() == []
    bystander.send()
    assert len(bystander.queue.drain()) == 1


@pytest.mark.parametrize("log_size", [1])
def test_overrun_event_names_its_cause(pair, queue, driver):
    pair.send(3)
    entry = driver.eqs[pair.node.async_eqn].next()
    error = eqe_cq_err.view(entry.data)
    assert (error.cqn, error.syndrome) == (queue.cqn, CqErrorSyndrome.CQ_OVERRUN)


def test_entries_follow_up_to_the_consumer_across_the_end(pair, queue):
    pair.send(3)
    assert len(queue.drain()) == 3
    pair.send(16)
    assert pair.node.events() == []
    pair.send()
    assert (EventType.CQ_ERROR, queue.cqn) in pair.node.events()
    assert len(queue.drain()) == 16


@pytest.mark.hostile
@pytest.mark.parametrize("back", [1, 16, 0x800000])
def test_consumer_index_that_moves_back(pair, queue, driver, back):
    """What was read counts as unread again, so the queue is full earlier, and breaks alone."""
    pair.send(16)
    assert len(queue.drain()) == 16
    bystander = Pair(pair.node, pair.node.completion_queue(4))
    queue.ci -= back
    queue.write_record()
    queue.ci += back
    pair.send(17)
    assert (EventType.CQ_ERROR, queue.cqn) in pair.node.events()
    assert driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context.status == CqStatus.CQ_OVERFLOW
    assert len(queue.drain()) <= 16
    bystander.send()
    assert len(bystander.queue.drain()) == 1


@pytest.mark.parametrize("log_size", [1])
@pytest.mark.parametrize("context", [{"oi": 1}])
def test_ignored_overrun_writes_on(pair, queue):
    """The driver has promised to be fast enough, so nobody looks at how far it has read."""
    for _ in range(5):
        pair.send(2)
        assert queue.poll(update_record=False)
        assert queue.poll(update_record=False)
    assert pair.node.events() == []


@pytest.mark.parametrize("log_size", [0, 3])
@pytest.mark.parametrize("context", [{"cc": 1, "oi": 1}, {"cc": 1, "oi": 1, "cqe_comp_en": 1}])
def test_collapsed_queue_keeps_its_newest_entry(pair, queue, log_size):
    """As Snabb's driver and DPDK's want it for sends: who polls learns how far all has got."""
    beside = [queue.entry(index) for index in range(1, 1 << log_size)]
    for number in range(3 << log_size):
        pair.send()
        newest = queue.entry(0)
        assert int.from_bytes(newest[60:62], "big") == number  # wqe_counter
        assert newest[63] & 1 == number >> log_size & 1  # the lap, as in any ring
    assert [queue.entry(index) for index in range(1, 1 << log_size)] == beside
    assert pair.node.events() == []


@pytest.mark.parametrize("log_size", [1])
def test_overrun_can_be_ignored_later(pair, queue, driver):
    driver.must(
        Op.MODIFY_CQ, cqn=queue.cqn, modify_field_select_resize_field_select=OVERRUN,
        cq_context={"oi": 1},
    )  # fmt: skip
    pair.send(5)
    assert pair.node.events() == []


def test_buffer_that_is_taken_away(pair, queue, driver, monkeypatch):
    """The guest unmaps the ring: an event and no harm."""
    gone = queue.pages[0]
    queue.node.memory.revoke(gone)
    pair.send()
    assert pair.node.events()[0] == (EventType.CQ_ERROR, queue.cqn)
    assert driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context.status == CqStatus.CQ_WRITE_FAIL


# Moderation.


def moderate(driver, cqn, period, count, select=PERIOD | COUNT):
    return driver.command(
        Op.MODIFY_CQ, cqn=cqn, modify_field_select_resize_field_select=select,
        cq_context={"cq_period": period, "cq_max_count": count},
    )  # fmt: skip


def test_moderation_waits_for_enough_entries(pair, queue, driver):
    assert moderate(driver, queue.cqn, 100, 3).status == Status.OK
    queue.arm()
    pair.send(2)
    assert queue.events() == 0
    pair.send()
    assert queue.events() == 1


def test_moderation_waits_no_longer_than_its_period(pair, queue, driver, clock):
    moderate(driver, queue.cqn, 100, 3)
    queue.arm()
    pair.send()
    clock.advance(99 * US)
    assert queue.events() == 0
    clock.advance(1 * US)
    assert queue.events() == 1
    assert clock.waiting() == 0


def test_moderation_too_short_to_be_measured_holds_nothing_back(pair, queue, driver, clock):
    for period, held in ((8, 0), (9, 1)):
        moderate(driver, queue.cqn, period, 32)
        queue.arm()
        pair.send()
        assert clock.waiting() == held
        clock.advance(9 * US)
        queue.drain()
    assert queue.events() == 2


def test_moderation_counts_what_waits_when_it_is_armed(pair, queue, driver, clock):
    moderate(driver, queue.cqn, 100, 3)
    pair.send(3)
    queue.arm()
    assert queue.events() == 1
    pair.send()
    queue.arm()
    assert queue.events() == 0
    pair.send(2)
    assert queue.events() == 1
    queue.drain()
    pair.send()
    queue.arm()
    assert queue.events() == 0
    clock.advance(100 * US)
    assert queue.events() == 1


def test_moderation_turned_off_lets_the_event_out(pair, queue, driver, clock):
    moderate(driver, queue.cqn, 100, 3)
    queue.arm()
    pair.send()
    assert moderate(driver, queue.cqn, 0, 0).status == Status.OK
    assert queue.events() == 1
    assert clock.waiting() == 0


@pytest.mark.parametrize(("period", "count"), [(0, 3), (100, 0)])
def test_moderation_wants_both_numbers(pair, queue, driver, period, count):
    moderate(driver, queue.cqn, period, count)
    queue.arm()
    pair.send()
    assert queue.events() == 1


def test_destroyed_queue_forgets_its_event(node, driver, clock):
    queue = node.completion_queue(4, cq_period=100, cq_max_count=3)
    pair = Pair(node, queue)
    queue.arm()
    pair.send()
    pair.right.destroy()
    driver.must(Op.DESTROY_CQ, cqn=queue.cqn)
    clock.advance(100 * US)
    assert queue.events() == 0


@pytest.mark.parametrize("context", [{"cq_period": 100, "cq_max_count": 9, "cq_period_mode": 1}])
def test_each_entry_starts_the_period_anew(pair, queue, clock):
    """START_FROM_CQE: the event comes a period after the last entry, or with enough of them."""
    queue.arm()
    for _ in range(3):
        pair.send()
        clock.advance(60 * US)
    assert queue.events() == 0
    clock.advance(39 * US)
    assert queue.events() == 0
    clock.advance(1 * US)
    assert queue.events() == 1
    queue.drain()
    queue.arm()
    pair.send(9)
    assert queue.events() == 1
    assert clock.waiting() == 0


@pytest.mark.parametrize("limits", [{"cq_period_start_from_cqe": 0}])
def test_period_mode_without_the_capability(node, driver, refused):
    fields = driver.cq_fields(node.eqn, cq_period_mode=1)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, **fields)


def test_query_shows_moderation(queue, driver):
    moderate(driver, queue.cqn, 5, 7)
    moderate(driver, queue.cqn, 9, 8, select=PERIOD)
    context = driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context
    assert (context.cq_period, context.cq_max_count) == (9, 7)


@pytest.mark.parametrize(
    ("mode", "status"),
    [(0, Status.OK), (1, Status.OK), (2, Status.BAD_PARAM_ERR), (3, Status.BAD_PARAM_ERR)],
)
def test_moderation_as_ethtool_sets_it(queue, driver, mode, status):
    """core/en_main.c: mlx5e_modify_cq_moderation sends the mode with period and count.

    Of an InfiniBand function too, for IPoIB's interface.
    """
    answer = driver.command(
        Op.MODIFY_CQ, cqn=queue.cqn,
        modify_field_select_resize_field_select=PERIOD | COUNT | PERIOD_MODE,
        cq_context={"cq_period": 8, "cq_max_count": 32, "cq_period_mode": mode},
    )  # fmt: skip
    assert answer.status == status
    shown = driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context
    assert shown.cq_period_mode == (mode if status is Status.OK else 0)


@pytest.mark.parametrize("limits", [{"cq_moderation": 0}])
def test_moderation_without_the_capability(queue, refused):
    refused(
        Status.BAD_PARAM_ERR, Op.MODIFY_CQ, cqn=queue.cqn,
        modify_field_select_resize_field_select=PERIOD | COUNT,
        cq_context={"cq_period": 1, "cq_max_count": 1},
    )  # fmt: skip


@pytest.mark.parametrize("limits", [{"cq_moderation": 0}])
@pytest.mark.parametrize(("period", "count"), [(0, 3), (100, 0), (0, 0)])
def test_no_moderation_without_the_capability(queue, driver, period, count):
    assert moderate(driver, queue.cqn, period, count).status == Status.OK


@pytest.mark.parametrize("limits", [{"cq_period_mode_modify": 0}])
@pytest.mark.parametrize("select", [8, PERIOD_MODE, 1 << 31, COUNT | 8])
def test_field_that_cannot_be_modified(queue, refused, select):
    refused(
        Status.BAD_PARAM_ERR, Op.MODIFY_CQ, cqn=queue.cqn,
        modify_field_select_resize_field_select=select,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["apu_cq", "scqe_break_moderation_en"])
def test_option_that_nobody_built(node, driver, refused, name):
    fields = driver.cq_fields(node.eqn, **{name: 1})
    refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, **fields)


# Resize.


@pytest.mark.parametrize("new_size", [3, 5, 7])
@pytest.mark.parametrize("before", [0, 5, 14, 15, 16, 40])
def test_resize_between_messages(pair, queue, before, new_size):
    for _ in range(before):
        pair.send()
        queue.poll()
    assert queue.resize(new_size).status == Status.OK
    assert queue.poll() is None
    for number in range(before, before + (3 << new_size)):
        pair.send()
        assert queue.poll().wqe_counter == number % (1 << 16)
        assert queue.poll() is None


@pytest.mark.parametrize("new_size", [3, 5])
@pytest.mark.parametrize("unread", [1, 7])
@pytest.mark.parametrize("before", [0, 6, 13])
def test_resize_with_unread_entries(pair, queue, before, unread, new_size):
    """They are found in the new buffer, and those that come later after them."""
    for _ in range(before):
        pair.send()
        queue.poll()
    pair.send(unread)
    assert queue.resize(new_size).status == Status.OK
    pair.send()
    found = [completion.wqe_counter for completion in queue.drain()]
    assert found == list(range(before, before + unread + 1))


def test_resize_again_and_again(pair, queue):
    sent = 0
    for log_size in (5, 3, 4, 6, 2, 4):
        pair.send(2)
        assert queue.resize(log_size).status == Status.OK
        pair.send()
        assert [found.wqe_counter for found in queue.drain()] == [sent, sent + 1, sent + 2]
        sent += 3


def test_resize_below_what_is_unread(pair, queue, driver):
    pair.send(5)
    assert queue.resize(2).status == Status.BAD_SIZE_OUTS_CQES_ERR
    assert len(queue.drain()) == 5
    pair.send()
    assert len(queue.drain()) == 1


def test_resize_comes_after_sends_that_were_rung_before(pair, queue):
    """The new buffer is too small for their completions, which are written first."""
    for _ in range(6):
        pair.right.post_recv(pair.region.sge(0, 64))
        pair.left.send(pair.region.sge(0, 8))
    assert queue.resize(2).status == Status.BAD_SIZE_OUTS_CQES_ERR
    assert len(queue.drain()) == 6
    assert pair.node.events() == []


def test_resize_comes_after_sends_that_were_rung_after_another_command(pair, queue, driver):
    """All doorbells ring in one round; the resize still finds the completions of the sends."""
    driver.submit(query_issi_in.new(opcode=Op.QUERY_ISSI).buf, query_issi_out.size, slot=5)
    driver.write32(0x018, 1 << 5)
    for _ in range(6):
        pair.right.post_recv(pair.region.sge(0, 64))
        pair.left.send(pair.region.sge(0, 8))
    assert queue.resize(2).status == Status.BAD_SIZE_OUTS_CQES_ERR
    assert len(queue.drain()) == 6


def test_resize_of_a_full_ring(pair, queue):
    """There is no room for the mark at the old buffer's end."""
    pair.send(16)
    assert queue.resize(6).status == Status.BAD_SIZE_OUTS_CQES_ERR
    assert len(queue.drain()) == 16


def test_resize_keeps_the_arm(pair, queue):
    queue.arm()
    queue.resize(5)
    assert queue.events() == 0
    pair.send()
    assert queue.events() == 1


@pytest.mark.parametrize("solicited", [False, True])
def test_resize_moves_solicited_entries_too(pair, queue, solicited):
    pair.send(solicited=solicited)
    queue.resize(5)
    queue.arm(solicited=True)
    assert queue.events() == solicited


def test_old_buffer_is_left_alone(pair, queue, node):
    old = queue.pages
    queue.resize(5)
    before = [node.memory.read(page, 4096) for page in old]
    pair.send(20)
    assert [node.memory.read(page, 4096) for page in old] == before


def test_query_shows_the_new_size(queue, driver):
    queue.resize(7)
    context = driver.must(Op.QUERY_CQ, cqn=queue.cqn).cq_context
    assert context.log_cq_size == 7


@pytest.mark.parametrize("log_size", [1])
def test_resize_of_a_broken_queue(pair, queue, clock):
    pair.send(3)
    clock.advance(0)
    queue.drain()
    assert queue.resize(5).status == Status.BAD_RES_STATE_ERR


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"op_mod": 2}, Status.BAD_PARAM_ERR),
        ({"modify_field_select_resize_field_select": 3}, Status.BAD_PARAM_ERR),
        ({"cq_context": {"log_cq_size": 31}}, Status.LIM_ERR),
        ({"cq_context": {"log_cq_size": 4, "cqe_sz": 2}}, Status.BAD_PARAM_ERR),
        ({"cq_context": {"log_cq_size": 12}}, Status.BAD_PARAM_ERR),
        ({"extra": pack64([0x7000_0000_0000])}, Status.BAD_PARAM_ERR),
        ({"extra": b""}, Status.BAD_PARAM_ERR),
        ({"cqn": 0x77}, Status.BAD_RES_STATE_ERR),
    ],
)
def test_resize_that_cannot_be(node, refused, fields, status):
    cqn = node.completion_queue(4).cqn
    good = {
        "op_mod": 1, "cqn": cqn, "modify_field_select_resize_field_select": 7,
        "cq_context": {"log_cq_size": 5}, "extra": pack64(node.memory.pages(64 << 5)),
    }  # fmt: skip
    refused(status, Op.MODIFY_CQ, **good | fields)


@pytest.mark.parametrize("limits", [{"cq_resize": 0}])
def test_resize_without_the_capability(queue):
    assert queue.resize(5).status == Status.BAD_PARAM_ERR


def test_data_segment_cannot_reach_the_ring(pair, queue, node):
    """The ring is the driver's memory, not the key's: a key that does not cover it is refused."""
    pair.left.post(0x0A, DATA.pack(64, pair.region.key, pair.region.va + 4096))
    node.settle()
    assert queue.poll() is None


@pytest.mark.unobserved("it counts the steps of rounds, of which observers take their part")
@pytest.mark.hostile
def test_many_queue_pairs_of_a_queue_that_breaks(node, function):
    """A share of them stops in each round, and one that is destroyed meanwhile is left out."""
    at_once = POLL_BUDGET // STEPS_PER_STOP + 1
    cq = node.completion_queue()
    users = [
        node.queue_pair(cq=cq, log_sq_size=1, log_rq_size=1).init() for _ in range(3 * at_once)
    ]
    node.hca.scheduler.add_broken(node.hca.cqs.need(cq.cqn))
    inside, stopped = list(node.hca.qps), []
    for _ in range(2):
        assert function.run()
        stopped.append(sum(qp.state is QpState.ERR for qp in inside))
    assert stopped == [at_once, 2 * at_once]
    users.pop().destroy()  # it runs the function to its end
    assert all(qp.state is QpState.ERR for qp in users)
    assert not function.run()
