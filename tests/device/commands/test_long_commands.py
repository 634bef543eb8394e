"""Commands that have much to do: a share in each round, short ones go past, nothing half done."""

from dataclasses import replace

import pytest
from helpers.device.snapshot import snapshot

from emu.device.cmdif import interface as cmdif
from emu.device.cmdif import mailbox
from emu.device.cmdif.registry import COMMANDS
from emu.device.function.function import Function
from emu.device.models.virtual_functions import MAX_VFS
from emu.device.objects.ledger import COMMAND
from emu.device.objects.memory import pages
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.sizes import COMMANDS_PER_ROUND, PAGES_PER_PORTION
from emu.device.state.fwpages import FirmwarePages
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar, enable
from emu.driver.command.driver import Driver
from emu.driver.command.words import pack64
from emu.driver.nodes.two_nodes import GUID
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from firmware_cmds import TABLE
from layouts.cmd import cmd_layout
from layouts.enums.cmd import DeliveryStat, Op, Status
from layouts.enums.hca import NicInterface, PageOp, TeardownProfile
from layouts.enums.mkey import AccessMode

pytestmark = pytest.mark.hostile

CALLS_PER_ROUND = 20_000
"""Of guest memory; a few microseconds each."""


class CountingMemory(Memory):
    """Counts how often the device reaches for guest memory."""

    calls = 0

    def read(self, iova, length):
        self.calls += 1
        return super().read(iova, length)

    def write(self, iova, data):
        self.calls += 1
        super().write(iova, data)

    def segments(self, iova, length, *, writable=True):
        self.calls += 1
        return super().segments(iova, length, writable=writable)


@pytest.fixture
def memory():
    return CountingMemory(96 << 20)


@pytest.fixture
def small_turns(monkeypatch):
    """A dozen pages are already many."""
    monkeypatch.setattr(cmdif, "SHORT_BYTES", 256)
    monkeypatch.setattr(mailbox, "BLOCKS_PER_PORTION", 1)
    monkeypatch.setattr(pages, "PAGES_PER_PORTION", 2)
    monkeypatch.setattr(pages, "_MAX_JOINED", 2)


class Sent:
    """A command that is in its slot."""

    def __init__(self, driver, slot, op, extra=b"", out_extra=0, op_mod=0, **fields):
        entry = COMMANDS[op]
        data = bytes(entry.layout_in.new(opcode=op, op_mod=op_mod, **fields).buf) + extra
        self.driver, self.slot = driver, slot
        self.outlen = entry.layout_out.size + out_extra
        self.layout = entry.layout_out
        self.blocks = driver.submit(data, self.outlen, slot)

    @property
    def is_done(self):
        entry = self.driver.memory.read(self.driver.queue + 64 * self.slot, 64)
        return not cmd_layout.view(entry).status_own & 1

    def answer(self):
        delivery, raw = self.driver.collect(self.blocks, self.outlen, self.slot)
        assert delivery == 0
        return self.layout.view(bytearray(raw))

    @property
    def status(self):
        return Status(self.answer().status)


def doorbell(driver, *slots):
    """Rings, and leaves the device alone."""
    driver.write32(0x018, sum(1 << slot for slot in slots))


def umem(driver, count, *, rights=3, page=None):
    """The fields of CREATE_UMEM over pages none of which follows its neighbour."""
    low, high = driver.queue, driver.queue + 2 * 4096
    listed = [(low, high)[number & 1] | rights for number in range(count - 1)]
    listed.append((low if page is None else page) | rights)
    return {"umem": {"num_of_mtt": count}, "extra": pack64(listed)}


def over_umem(pdn, umem_id, count):
    context = {
        "pd": pdn, "access_mode_1_0": AccessMode.MTT, "log_page_size": 12, "len": count << 12,
        "translations_octword_size": -(-count // 2), "lr": 1, "umr_en": 1, "qpn": 0xFFFFFF,
    }  # fmt: skip
    return {
        "memory_key_mkey_entry": context, "mkey_umem_valid": 1, "mkey_umem_id": umem_id,
    }  # fmt: skip


def rounds(function, memory):
    """Runs dry; the calls of each round."""
    found = []
    while True:
        before = memory.calls
        more = function.run()
        found.append(memory.calls - before)
        if not more:
            return found


class TestWork:
    """With the real sizes of a turn."""

    COUNT = 200_000

    def test_umem_and_key_over_many_pages(self, driver, function, memory):
        pdn = driver.alloc_pd()
        sent = Sent(driver, 0, Op.CREATE_UMEM, **umem(driver, self.COUNT))
        doorbell(driver, 0)
        calls = rounds(function, memory)
        assert len(calls) > 10
        assert max(calls) < CALLS_PER_ROUND
        umem_id = sent.answer().umem_id
        sent = Sent(driver, 0, Op.CREATE_MKEY, **over_umem(pdn, umem_id, self.COUNT))
        doorbell(driver, 0)
        assert len(rounds(function, memory)) > 10
        entries = function.hca.mkeys.need(sent.answer().mkey_index).entries
        listed = [driver.queue | 3, (driver.queue + 2 * 4096) | 3]
        assert list(entries[: self.COUNT - 1]) == (listed * self.COUNT)[: self.COUNT - 1]

    def test_as_many_slots_as_there_are(self, driver, function, memory):
        fields = umem(driver, 20_000)
        sent = [Sent(driver, slot, Op.CREATE_UMEM, **fields) for slot in range(32)]
        doorbell(driver, *range(32))
        assert max(rounds(function, memory)) < CALLS_PER_ROUND
        assert [one.status for one in sent] == [Status.OK] * 32

    def test_firmware_pages(self, driver, function, memory):
        count = 8000
        first = memory.alloc(4096 * 2 * count)
        given = [first + 8192 * number for number in range(count)]
        sent = Sent(driver, 0, Op.MANAGE_PAGES, op_mod=PageOp.GIVE, input_num_entries=count,
                    extra=pack64(given))  # fmt: skip
        doorbell(driver, 0)
        assert max(rounds(function, memory)) < CALLS_PER_ROUND
        assert sent.status == Status.OK
        sent = Sent(driver, 0, Op.MANAGE_PAGES, op_mod=PageOp.TAKE, input_num_entries=count,
                    out_extra=8 * count)  # fmt: skip
        doorbell(driver, 0)
        assert max(rounds(function, memory)) < CALLS_PER_ROUND
        assert sorted(sent.answer().pas) == given

    def test_firmware_pages_beside_those_of_many_functions(self, driver, function, monkeypatch):
        """Each page may have been given for any of them."""
        for number in range(1, MAX_VFS + 1):
            function.hca.fwpages.of(number)
        compared = []
        holds_any = FirmwarePages.holds_any

        def compare(held, pages):
            compared[-1] += len(pages)
            return holds_any(held, pages)

        monkeypatch.setattr(FirmwarePages, "holds_any", compare)
        given = driver.memory.pages(PAGES_PER_PORTION * 4096)
        sent = Sent(driver, 0, Op.MANAGE_PAGES, op_mod=PageOp.GIVE, input_num_entries=len(given),
                    extra=pack64(given))  # fmt: skip
        doorbell(driver, 0)
        compared.append(0)
        while function.run():
            compared.append(0)
        assert sent.status == Status.OK
        assert sum(compared) > MAX_VFS * PAGES_PER_PORTION
        assert max(compared) == PAGES_PER_PORTION

    def test_a_page_that_another_function_gets_meanwhile(self, driver, function):
        """The first comparison of the other function's pages is over when it gets one of these."""
        pages, hca = function.hca.fwpages, function.hca
        given = driver.memory.pages(PAGES_PER_PORTION * 4096)

        class Meanwhile(FirmwarePages):
            def holds_any(self, several):
                found = super().holds_any(several)
                if not self:
                    self.accept({given[7]: None})
                    pages.accepted += 1
                return found

        pages.virtual[1] = Meanwhile(0, hca.ledger)
        before = len(pages)
        sent = Sent(driver, 0, Op.MANAGE_PAGES, op_mod=PageOp.GIVE, input_num_entries=len(given),
                    extra=pack64(given))  # fmt: skip
        doorbell(driver, 0)
        driver.bar.settle()
        assert sent.status == Status.BAD_PARAM_ERR
        assert len(pages) == before


def test_a_length_that_is_refused_leaves_others_their_memory(driver, function):
    """An output of 4 GiB behind a long input: no more is held than for two that are accepted."""
    sent = Sent(driver, 0, Op.MANAGE_PAGES, op_mod=PageOp.GIVE, extra=bytes(1 << 20))
    at = driver.queue
    entry = cmd_layout.view(bytearray(driver.memory.read(at, 64)))
    entry.outlen = 0xFFFFFFFF
    driver.memory.write(at, entry.buf)
    doorbell(driver, 0)
    held = []
    while not sent.is_done:
        function.run()
        held.append(function.hca.ledger.accounts.get(COMMAND, 0))
    assert 0 < max(held) <= 2 * mailbox.MAX_COMMAND_BYTES
    assert COMMAND not in function.hca.ledger.accounts
    assert driver.collect(sent.blocks, 16)[0] == DeliveryStat.OUT_LENGTH_ERR


@pytest.mark.usefixtures("small_turns")
class TestMeanwhile:
    COUNT = 200

    @pytest.fixture
    def sent(self, driver, function):
        """A CREATE_UMEM in slot 3, whose work has begun."""
        sent = Sent(driver, 3, Op.CREATE_UMEM, **umem(driver, self.COUNT))
        doorbell(driver, 3)
        self.up_to_the_handler(function)
        return sent

    def up_to_the_handler(self, function):
        executed = function.cmdif.executed
        while function.cmdif.executed == executed:
            assert function.run()
        assert function.run()

    def test_short_commands_go_past(self, driver, function, sent):
        for _ in range(3):
            short = Sent(driver, 5, Op.ALLOC_PD)
            doorbell(driver, 5)
            assert function.run()
            assert short.is_done
            assert short.status == Status.OK
        assert not sent.is_done
        driver.bar.settle()
        assert sent.status == Status.OK

    def test_long_ones_come_in_their_order(self, driver, function, sent):
        second = Sent(driver, 1, Op.CREATE_UMEM, **umem(driver, self.COUNT))
        doorbell(driver, 1)
        while not sent.is_done:
            assert function.run()
        assert not second.is_done
        driver.bar.settle()
        assert (sent.answer().umem_id, second.answer().umem_id) == (1, 2)

    def test_a_second_doorbell_does_not_run_it_again(self, driver, function, sent):
        before = function.cmdif.executed
        doorbell(driver, 3)
        driver.bar.settle()
        assert function.cmdif.executed == before
        assert sent.status == Status.OK
        assert len(function.hca.umems) == 1

    def test_an_event_names_it_when_it_is_done(self, driver, function):
        events = driver.use_events()
        sent = Sent(driver, 3, Op.CREATE_UMEM, **umem(driver, self.COUNT))
        doorbell(driver, 3)
        driver.irqs.fired.clear()
        self.up_to_the_handler(function)
        assert not driver.irqs.fired
        driver.bar.settle()
        assert driver.irqs.fired == [0]
        assert events.finished_slots() == 1 << 3
        assert sent.status == Status.OK

    def test_refused_means_unchanged(self, driver, function):
        sent = Sent(driver, 3, Op.CREATE_UMEM, **umem(driver, self.COUNT, page=0x7000_0000_0000))
        before = snapshot(function.hca)
        doorbell(driver, 3)
        driver.bar.settle()
        assert sent.status == Status.BAD_PARAM_ERR
        assert snapshot(function.hca) == before

    def test_what_it_needs_cannot_be_destroyed(self, driver, function, sent):
        driver.bar.settle()
        umem_id, pdn = sent.answer().umem_id, driver.alloc_pd()
        sent = Sent(driver, 3, Op.CREATE_MKEY, **over_umem(pdn, umem_id, self.COUNT))
        doorbell(driver, 3)
        self.up_to_the_handler(function)
        for op, field, handle in (
            (Op.DEALLOC_PD, "pd", pdn),
            (Op.DESTROY_UMEM, "umem_id", umem_id),
        ):
            short = Sent(driver, 5, op, **{field: handle})
            doorbell(driver, 5)
            assert function.run()
            assert short.status == Status.BAD_RES_STATE_ERR
        driver.bar.settle()
        driver.must(Op.DESTROY_MKEY, mkey_index=sent.answer().mkey_index)
        driver.must(Op.DESTROY_UMEM, umem_id=umem_id)
        driver.must(Op.DEALLOC_PD, pd=pdn)

    @pytest.mark.parametrize(
        "profile", [TeardownProfile.GRACEFUL_CLOSE, TeardownProfile.FORCE_CLOSE]
    )
    def test_teardown_refuses_it(self, driver, function, sent, profile):
        short = Sent(driver, 5, Op.TEARDOWN_HCA, profile=profile)
        doorbell(driver, 5)
        assert function.run()
        assert short.status == Status.OK
        driver.bar.settle()
        assert sent.status == Status.BAD_SYS_STATE_ERR
        assert not any(function.hca.tables)

    def test_teardown_and_init_refuse_it(self, driver, function, sent):
        down, up = Sent(driver, 5, Op.TEARDOWN_HCA), Sent(driver, 6, Op.INIT_HCA)
        doorbell(driver, 5, 6)
        assert function.run()
        assert (down.status, up.status) == (Status.OK, Status.OK)
        driver.bar.settle()
        assert sent.status == Status.BAD_SYS_STATE_ERR
        assert not len(function.hca.umems)

    def test_reset_forgets_it(self, cold, driver, function, memory, sent):
        function.reset()
        enable(function)
        before = memory.contents()
        assert not function.run()
        assert memory.contents() == before
        cold.probe()
        assert not len(function.hca.umems)

    def test_a_driver_that_goes_is_not_answered(self, driver, function, memory, sent):
        driver.write32(0x014, NicInterface.DISABLED << 8)
        before = memory.contents()
        assert not function.run()
        assert memory.contents() == before

    def test_a_queue_elsewhere_is_a_new_one(self, driver, function, sent):
        driver.queue = driver.memory.alloc(4096)
        driver.attach()
        assert not function.run()
        assert not len(function.hca.umems)
        assert driver.must(Op.ALLOC_PD)

    def test_a_queue_at_the_same_place_is_the_same(self, driver, function, sent):
        driver.attach()
        driver.bar.settle()
        assert sent.status == Status.OK

    def test_a_slot_that_vanishes_ends_it(self, driver, function, memory, sent, caplog):
        memory.revoke(driver.queue)
        driver.bar.settle()
        assert "command slot 3" in caplog.text
        assert not function.cmdif.busy


class TestManyFunctions:
    """Each has a long command in its first slot; a round has room for the turns of a few."""

    COUNT = 64
    PAGES = 6000

    @pytest.fixture
    def memory(self):
        return CountingMemory(4 << 20)

    @pytest.fixture
    def drivers(self, model, clock, wire):
        found = []
        for number in range(self.COUNT):
            memory, irqs = CountingMemory(4 << 20), IrqList()
            function = Function(
                model, HcaOptions(guid=GUID + number), TABLE, memory, irqs, clock, wire
            )
            found.append(Driver(FunctionBar(function), memory, irqs).probe())
        return found

    def test_their_turns_keep_to_the_round_and_all_get_theirs(self, drivers, clock):
        sent = [Sent(driver, 0, Op.CREATE_UMEM, **umem(driver, self.PAGES)) for driver in drivers]
        for driver in drivers:
            doorbell(driver, 0)
        functions = [driver.bar.functions[0] for driver in drivers]
        calls, first = self.calls(drivers), 0
        for _ in range(40 * self.COUNT):
            clock.budget.begin()
            for at in range(first, first + self.COUNT):  # as the loop does
                if clock.budget.exhausted(POLL_BUDGET):
                    first = at % self.COUNT
                    break
                functions[at % self.COUNT].poll()
            before, calls = calls, self.calls(drivers)
            assert calls - before <= 6 * PAGES_PER_PORTION
            assert clock.budget.steps < 2 * POLL_BUDGET
            if all(one.is_done for one in sent):
                break
        assert [one.status for one in sent] == [Status.OK] * self.COUNT

    def calls(self, drivers):
        return sum(driver.memory.calls for driver in drivers)

    def test_short_ones_count_too(self, driver, function):
        for slot in range(COMMANDS_PER_ROUND):
            Sent(driver, slot, Op.QUERY_HCA_VPORT_CONTEXT)
        before = function.hca.budget.number
        doorbell(driver, *range(COMMANDS_PER_ROUND))
        function.run()
        assert function.hca.budget.number <= before + 1
        assert function.hca.budget.steps >= 16 * COMMANDS_PER_ROUND


def test_a_command_that_drops_all_commands_is_dropped_itself(driver, function):
    """Its next step must not run among the commands of the next driver."""
    steps = []

    def handler(hca, cmd, out):
        interface.forget()
        interface.set_address(driver.queue)
        steps.append("dropped")
        yield
        steps.append("continued")

    command = replace(COMMANDS[Op.ALLOC_PD], handler=handler)
    interface = cmdif.CommandInterface(function.hca, {Op.ALLOC_PD: command})
    interface.set_address(driver.queue)
    Sent(driver, 3, Op.ALLOC_PD)
    interface.doorbell(1 << 3)
    interface.run()
    assert not interface.busy
    interface.run()
    assert steps == ["dropped"]
