"""Event queues: ownership, arming, wrap, overrun, and what the device refuses."""

import pytest
from helpers.device.port_events import port_event_queue

from emu.driver.world.cable import set_link
from emu.server.service.views import status
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType


@pytest.fixture
def port_events(driver, function):
    """An armed EQ for port events, and a function that raises one."""
    queue = port_event_queue(driver, function, log_size=2, vector=5)
    queue.arm()
    return queue


def test_event_arrives_with_one_interrupt_for_one_arm(port_events, irqs):
    port_events.raise_one()
    port_events.raise_one()
    assert irqs.fired == [5]
    assert [entry.type for entry in port_events.drain()] == [EventType.PORT_CHANGE] * 2
    port_events.raise_one()
    assert irqs.fired == [5, 5]


def test_arming_behind_an_event_fires_at_once(port_events, irqs):
    port_events.raise_one()
    port_events.raise_one()
    assert port_events.next()
    irqs.fired.clear()
    port_events.arm()
    assert irqs.fired == [5]


def test_consumer_index_without_arm_does_not_fire(port_events, irqs):
    port_events.raise_one()
    irqs.fired.clear()
    port_events.update_ci()
    port_events.raise_one()
    assert irqs.fired == []


def test_owner_bit_follows_the_wrap(port_events):
    for _ in range(11):
        port_events.raise_one()
        assert port_events.next()
        assert port_events.next() is None
        port_events.update_ci()


def test_ring_of_several_pages(driver, function):
    queue = port_event_queue(driver, function, log_size=7)
    for _ in range(3):
        for _ in range(50):
            queue.raise_one()
        assert [entry.type for entry in queue.drain()] == [EventType.PORT_CHANGE] * 50
        queue.update_ci()


def test_overrun_loses_and_counts(port_events, driver, function, caplog):
    """Each is counted; the log tells once when it begins, and when it is over."""
    for lost in (0, 0, 0, 0, 1, 2, 3):
        port_events.raise_one()
        assert driver.must(Op.QUERY_VNIC_ENV).vport_env.async_eq_overrun == lost
    assert function.hca.eqs.get(port_events.eqn).overruns == 3
    assert status(function, 0)["counts"]["lost_events"] == 3
    assert len(port_events.drain()) == 4
    port_events.update_ci()
    port_events.raise_one()
    assert len(port_events.drain()) == 1
    lines = [one for one in caplog.records if one.name.startswith("emu.device.engine.events")]
    assert [record.message.split(": ")[1] for record in lines] == [
        "overrun", "has space again",
    ]  # fmt: skip
    assert driver.must(Op.QUERY_EQ, eq_number=port_events.eqn).eq_context_entry.status == 0


@pytest.mark.parametrize("written", [0, 1])
def test_ring_that_is_no_guest_memory_any_more(port_events, driver, irqs, caplog, written):
    """Even after an event in the same page."""
    for _ in range(written):
        port_events.raise_one()
    driver.memory.revoke(port_events.addresses[0])
    port_events.raise_one()
    assert "PORT_CHANGE event lost" in caplog.text
    assert irqs.fired == [5] * written
    assert driver.must(Op.QUERY_EQ, eq_number=port_events.eqn).eq_context_entry.status == 0xA


def test_doorbell_past_the_producer_is_ignored(port_events, function, caplog):
    port_events.ci = 3
    port_events.arm()
    assert "consumes" in caplog.text
    assert function.hca.eqs.get(port_events.eqn).ci == 0


def test_doorbell_for_no_eq_and_in_no_uar(driver, caplog):
    driver.write32(driver.uar * 4096 + 0x40, 0x77 << 24)
    assert "no EQ has the number 0x77" in caplog.text
    driver.write32(0x900 * 4096 + 0x40, 0)
    assert "UAR 0x900, which is not allocated" in caplog.text


def test_doorbell_in_another_page(port_events, driver, function, caplog):
    """Such as the one that a process of the guest has."""
    port_events.raise_one()
    eq = function.hca.eqs.get(port_events.eqn)
    other = driver.must(Op.ALLOC_UAR).uar
    for offset in (0x40, 0x48):
        driver.write32(other * 4096 + offset, port_events.eqn << 24 | 1)
    assert (eq.ci, eq.armed) == (0, False)
    assert caplog.text.count(f"doorbell ignored: sent through UAR {other:#x}") == 2
    assert port_events.drain()
    assert eq.ci == 1


def test_nobody_asked_for_the_event(driver, function, irqs):
    queue = driver.eqs[driver.create_eq(events=[EventType.PAGE_REQUEST])]
    queue.arm()
    set_link(function.hca, up=False)
    assert queue.drain() == []
    assert irqs.fired == []
    assert status(function, 0)["counts"]["lost_events"] == 0


def test_query_shows_mask_and_counters(port_events, driver):
    port_events.raise_one()
    answer = driver.must(Op.QUERY_EQ, eq_number=port_events.eqn)
    assert answer.event_bitmask == 1 << EventType.PORT_CHANGE
    assert answer.eq_context_entry.intr == 5
    assert answer.eq_context_entry.producer_counter == 1
    assert answer.eq_context_entry.log_eq_size == 2


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("log_eq_size", 31, Status.LIM_ERR),
        ("intr", 64, Status.BAD_PARAM_ERR),
        ("uar_page", 0, Status.BAD_RES_ERR),
        ("log_eq_size", 12, Status.BAD_PARAM_ERR),
    ],
)
def test_refused_eq_leaves_no_trace(driver, function, irqs, field, value, status):
    context = {"log_eq_size": 4, "uar_page": driver.uar} | {field: value}
    page = driver.memory.alloc(4096).to_bytes(8, "big")
    answer = driver.command(
        Op.CREATE_EQ, eq_context_entry=context, event_bitmask=[1 << 9, 0, 0, 0], extra=page
    )
    assert answer.status == status
    assert not function.hca.eqs
    before = driver.memory.contents()
    set_link(function.hca, up=False)
    assert driver.memory.contents() == before
    assert irqs.fired == []


@pytest.mark.parametrize("page", [0, 0x1_0000_0800, 1 << 63])
def test_pages_that_are_no_guest_memory(driver, page):
    answer = driver.command(
        Op.CREATE_EQ,
        eq_context_entry={"log_eq_size": 4, "uar_page": driver.uar},
        extra=page.to_bytes(8, "big"),
    )
    assert answer.status == Status.BAD_PARAM_ERR


def test_every_eq_handle_can_be_used_and_no_more(driver):
    made = [driver.create_eq(log_size=2) for _ in range(driver.caps.max_num_eqs)]
    assert len(set(made)) == driver.caps.max_num_eqs
    with pytest.raises(AssertionError, match="LIM_ERR"):
        driver.create_eq(log_size=2)
    driver.destroy_eq(made[3])
    assert driver.create_eq(log_size=2) == made[3]


class TestInterruptModeration:
    """CONFIG_INT_MODERATION, which illumos' mlxcx asks for on each of its vectors."""

    VECTOR, DELAY_US = 5, 100

    def config(self, driver, delay=0, vector=VECTOR, op_mod=0):
        answer = driver.must(
            Op.CONFIG_INT_MODERATION, op_mod=op_mod, min_delay=delay, int_vector=vector
        )
        assert answer.int_vector == vector
        return answer.min_delay

    def wanted(self, queue):
        """The driver has read, and wants the next interrupt; an event comes."""
        queue.drain()
        queue.raise_one()

    def test_interrupts_are_kept_apart(self, driver, port_events, irqs, clock):
        """The first comes at once; what wants to come too soon comes once, when it is time."""
        assert self.config(driver, self.DELAY_US) == self.DELAY_US
        self.wanted(port_events)
        assert irqs.fired == [5]
        self.wanted(port_events)
        self.wanted(port_events)
        clock.advance(99_000)
        assert irqs.fired == [5]
        clock.advance(1_000)
        assert irqs.fired == [5, 5]
        clock.advance(200_000)
        self.wanted(port_events)
        assert irqs.fired == [5, 5, 5]

    def test_queues_of_a_vector_share_its_interrupts(self, driver, port_events, irqs, clock):
        self.config(driver, self.DELAY_US)
        other = driver.use_events(vector=self.VECTOR)
        driver.must(Op.QUERY_ADAPTER)
        self.wanted(port_events)
        assert irqs.fired == [5]
        assert other.next().type == EventType.CMD
        clock.advance(100_000)
        assert irqs.fired == [5, 5]

    def test_another_vector_is_not_concerned(self, driver, port_events, irqs):
        self.config(driver, self.DELAY_US, vector=6)
        for _ in range(3):
            self.wanted(port_events)
        assert irqs.fired == [5, 5, 5]

    def test_too_short_to_be_measured(self, driver, port_events, irqs):
        self.config(driver, 8)
        for _ in range(3):
            self.wanted(port_events)
        assert irqs.fired == [5, 5, 5]

    @pytest.mark.parametrize("delay", [0, 0xFFF])
    def test_new_setting_lets_go_what_waits(self, driver, port_events, irqs, clock, delay):
        self.config(driver, self.DELAY_US)
        self.wanted(port_events)
        self.wanted(port_events)
        assert self.config(driver, delay) == delay
        assert irqs.fired == [5, 5]
        clock.advance(10_000_000)
        assert irqs.fired == [5, 5]

    def test_setting_is_read(self, driver):
        assert self.config(driver, op_mod=1) == 0
        self.config(driver, self.DELAY_US)
        assert self.config(driver, 7, op_mod=1) == self.DELAY_US
        assert self.config(driver, vector=6, op_mod=1) == 0

    def test_teardown_forgets(self, driver, port_events, irqs, clock, function):
        self.config(driver, self.DELAY_US)
        self.wanted(port_events)
        self.wanted(port_events)
        driver.must(Op.TEARDOWN_HCA)
        clock.advance(1_000_000)
        assert irqs.fired == [5]
        assert not function.hca.events.vector_moderation

    @pytest.mark.parametrize("fields", [{"int_vector": 64}, {"int_vector": 0xFFFF}, {"op_mod": 2}])
    def test_refused(self, refused, fields):
        refused(Status.BAD_PARAM_ERR, Op.CONFIG_INT_MODERATION, min_delay=10, **fields)
