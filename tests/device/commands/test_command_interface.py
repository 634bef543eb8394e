"""The command queue: delivery, mailboxes, slots, events, signatures, and all that is refused."""

import logging

import pytest
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.cmdif.mailbox import MAX_COMMAND_BYTES, xor8
from emu.device.errors import syndrome_of
from emu.driver.verbs.connect import connect
from layouts.cmd import cmd_layout, cmd_prot_block
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import DeliveryStat, Op, Status
from layouts.enums.eqe import EventType
from layouts.enums.hca import NicInterface, TeardownProfile
from layouts.function import caps


def query_caps(driver, mode=1):
    """QUERY_HCA_CAP's input, whose output needs nine blocks."""
    return caps.query_hca_cap_in.new(opcode=Op.QUERY_HCA_CAP, op_mod=mode).buf


def test_probe_leaves_nothing_behind(driver, function):
    driver.remove()
    assert not any(function.hca.tables)


def test_output_spans_blocks(driver):
    delivery, raw = driver.execute(query_caps(driver), caps.query_hca_cap_out.size)
    assert delivery == DeliveryStat.OK
    general = caps.cmd_hca_cap.view(raw[16:])
    assert general.log_bf_reg_size == 9
    assert general.num_of_uars_per_page == 1


def test_slots_finish_in_any_order_and_one_event_names_them(driver):
    events = driver.use_events()
    driver.irqs.fired.clear()
    first = driver.submit(query_caps(driver), 4112, slot=7)
    second = driver.submit(query_caps(driver), 4112, slot=2)
    driver.ring(1 << 7 | 1 << 2)
    assert driver.irqs.fired == [0]
    assert events.finished_slots() == 1 << 7 | 1 << 2
    assert driver.collect(second, 4112, slot=2)[0] == DeliveryStat.OK
    assert driver.collect(first, 4112, slot=7)[0] == DeliveryStat.OK


def test_all_slots_at_once(driver):
    blocks = {slot: driver.submit(query_caps(driver), 4112, slot) for slot in range(32)}
    driver.ring(0xFFFFFFFF)
    for slot, chain in blocks.items():
        assert driver.collect(chain, 4112, slot)[0] == DeliveryStat.OK


@pytest.mark.unobserved("observers take steps of the rounds")
def test_commands_wait_for_one_poll_of_busy_queues(node, driver, function):
    """The poll uses up the round, and another command meanwhile does not make them wait again."""
    region = node.region(1 << 20)
    pairs = [(node.queue_pair(), node.queue_pair()) for _ in range(64)]
    for pair in pairs:
        connect(*pair)
    for sender, _ in pairs:
        for _ in range(16):
            sender.write((region.key, region.va), region.sge())
    executed = function.cmdif.executed
    driver.submit(query_caps(driver), 4112, slot=7)
    driver.write32(0x018, 1 << 7)
    assert function.run()
    assert function.cmdif.executed == executed
    driver.submit(query_caps(driver), 4112, slot=2)
    driver.write32(0x018, 1 << 2)
    assert function.run()
    assert function.cmdif.executed == executed + 2


def test_polling_mode_raises_no_interrupt(driver):
    driver.must(Op.QUERY_ADAPTER)
    assert driver.irqs.fired == []


def test_doorbell_for_an_entry_of_the_driver_does_nothing(driver, caplog):
    driver.must(Op.QUERY_ADAPTER)
    before = driver.memory.read(driver.queue, 64)
    driver.ring(1)
    assert driver.memory.read(driver.queue, 64) == before
    assert "entry is still owned by the driver" in caplog.text


def test_doorbell_before_the_queue_has_an_address(cold, caplog):
    cold.ring(1)
    assert "doorbell 0x1 ignored: no command queue address is set" in caplog.text


def test_doorbell_after_the_driver_has_disabled_the_interface_is_no_surprise(driver, caplog):
    """What it had not stopped by then rings into the void, as on a real function."""
    driver.must(Op.TEARDOWN_HCA, profile=TeardownProfile.PREPARE_FAST_TEARDOWN)
    driver.write32(0x014, NicInterface.DISABLED << 8)
    caplog.clear()
    caplog.set_level(logging.WARNING)
    driver.ring(1)
    assert caplog.text == ""


def test_queue_that_moves_leaves_its_commands_behind(driver, function, caplog):
    """Those that wait would be looked for in the new one."""
    executed = function.cmdif.executed
    left = driver.submit(bytes(Op.QUERY_ADAPTER.to_bytes(2, "big")).ljust(16, b"\0"), 16)
    driver.write32(0x018, 1)
    old, driver.queue = driver.queue, driver.memory.alloc(4096)
    driver.attach()
    driver.bar.settle()
    assert function.cmdif.executed == executed
    assert caplog.text == ""
    assert driver.memory.read(old + 63, 1) == b"\1", "the old command is answered"
    assert left
    driver.must(Op.QUERY_ADAPTER)


def test_address_that_is_set_again_drops_no_command(driver, function):
    executed = function.cmdif.executed
    driver.submit(bytes(Op.QUERY_ADAPTER.to_bytes(2, "big")).ljust(16, b"\0"), 16)
    driver.write32(0x018, 1)
    driver.attach()
    driver.bar.settle()
    assert function.cmdif.executed == executed + 1


@pytest.mark.hostile
def test_queue_outside_memory_is_survived(cold, caplog):
    cold.queue = 0x7000
    cold.write32(0x010, 0)
    cold.write32(0x014, 0x7000)
    cold.ring(1)
    assert "not mapped" in caplog.text


def test_unknown_opcode(driver, caplog):
    answer = driver.execute((0x0999).to_bytes(2, "big") + bytes(14), 16)
    assert answer[1][0] == Status.BAD_OP_ERR
    driver.execute(int(Op.CREATE_QOS_PARA_VPORT).to_bytes(2, "big") + bytes(14), 16)
    assert "CREATE_QOS_PARA_VPORT (0x786) is not answered" in caplog.text
    assert "create_qos_para_vport_in/_out" in caplog.text
    driver.must(Op.QUERY_ADAPTER)


def test_summary_counts_what_is_not_modelled(driver, function):
    for _ in range(3):
        driver.execute(int(Op.CREATE_QOS_PARA_VPORT).to_bytes(2, "big") + bytes(14), 16)
    driver.command(Op.ACCESS_REG, op_mod=1, register_id=0xC00E, extra=bytes(16), out_extra=16)
    driver.command(Op.QUERY_HCA_CAP, op_mod=0x13 << 1)
    function.reset()
    assert list(function.unhandled.lines()) == [
        "command CREATE_QOS_PARA_VPORT (0x786), 3 times",
        "register DTOR (0xc00e), 1 times",
        "capability group VDPA_EMULATION (0x13), 1 times",
    ]


@pytest.mark.parametrize(
    ("change", "delivery"),
    [
        ({"type": 3}, DeliveryStat.CMD_DESCR_ERR),
        ({"inlen": 4}, DeliveryStat.IN_LENGTH_ERR),
        ({"outlen": 0}, DeliveryStat.OUT_LENGTH_ERR),
        ({"inlen": MAX_COMMAND_BYTES + 1}, DeliveryStat.IN_LENGTH_ERR),
        ({"outlen": 0xFFFFFFFF}, DeliveryStat.OUT_LENGTH_ERR),
        ({"out_ptr": 0}, DeliveryStat.OUT_LENGTH_ERR),
        ({"in_ptr": 0x12345, "inlen": 600}, DeliveryStat.IN_PTR_ALIGN_ERR),
        ({"out_ptr": 0x1_0000_0010}, DeliveryStat.OUT_PTR_ALIGN_ERR),
        ({"out_ptr": 0x4000}, DeliveryStat.FW_ERR),
        ({"token": 0}, DeliveryStat.TOK_ERR),
    ],
)
def test_delivery_errors(driver, change, delivery):
    blocks = driver.submit(query_caps(driver), 4112)
    entry = cmd_layout.view(bytearray(driver.memory.read(driver.queue, 64)))
    entry.assign(change)
    driver.memory.write(driver.queue, entry.buf)
    before = [driver.memory.read(address, 512) for address in blocks[1]]
    driver.ring(1)
    assert driver.collect(blocks, 16)[0] == delivery
    assert [driver.memory.read(address, 512) for address in blocks[1]] == before
    driver.must(Op.QUERY_ADAPTER)


def test_an_input_without_its_mailbox_is_what_the_entry_has(driver):
    """iPXE's golan.c gives 2RST_QP a longer one; what it leaves out counts as zero."""
    blocks = driver.submit(query_caps(driver), 4112)
    entry = cmd_layout.view(bytearray(driver.memory.read(driver.queue, 64)))
    entry.assign({"inlen": 272, "in_ptr": 0})
    driver.memory.write(driver.queue, entry.buf)
    driver.ring(1)
    delivery, out = driver.collect(blocks, 4112)
    assert (delivery, out[0]) == (DeliveryStat.OK, Status.OK)
    assert any(out[16:])


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("block", "change", "delivery"),
    [
        (3, {"next": 0}, DeliveryStat.OUT_LENGTH_ERR),
        (3, {"block_num": 5}, DeliveryStat.BAD_BLK_NUM_ERR),
        (0, {"token": 0xEE}, DeliveryStat.TOK_ERR),
        (3, {"next": "first"}, DeliveryStat.BAD_BLK_NUM_ERR),
        (3, {"next": 0x1000}, DeliveryStat.FW_ERR),
        (3, {"next": 0xFFFF_FFFF_FFFF_FE00}, DeliveryStat.FW_ERR),
    ],
    ids=["short", "misnumbered", "foreign", "circular", "outside", "wrapping"],
)
def test_broken_chains(driver, block, change, delivery):
    blocks = driver.submit(query_caps(driver), 4112)
    address = blocks[1][block]
    view = cmd_prot_block.view(bytearray(driver.memory.read(address, cmd_prot_block.size)))
    view.assign({key: blocks[1][0] if v == "first" else v for key, v in change.items()})
    driver.memory.write(address, view.buf)
    driver.ring(1)
    assert driver.collect(blocks, 16)[0] == delivery
    driver.must(Op.QUERY_ADAPTER)


def test_lengths_below_the_layout(driver):
    short = int(Op.CREATE_CQ).to_bytes(2, "big") + bytes(14)
    assert driver.execute(short, 16)[1][0] == Status.BAD_INP_LEN_ERR
    adapter = int(Op.QUERY_ADAPTER).to_bytes(2, "big") + bytes(14)
    assert driver.execute(adapter, 12)[1][0] == Status.BAD_OUTP_LEN_ERR


@pytest.mark.parametrize("room", [16, 32, 2064])
def test_front_of_capabilities_for_who_wants_no_more(driver, room):
    """Programs know pages of other sizes (rdma-core's tests have 2048 bytes)."""
    whole = driver.execute(query_caps(driver), 4112)[1]
    assert driver.execute(query_caps(driver), room)[1] == whole[:room]


def test_commands_that_come_too_early(cold):
    cold.attach()
    assert cold.command(Op.QUERY_ISSI).status == Status.BAD_SYS_STATE_ERR
    cold.must(Op.ENABLE_HCA)
    assert cold.command(Op.ALLOC_PD).status == Status.BAD_SYS_STATE_ERR
    assert cold.command(Op.TEARDOWN_HCA).status == Status.BAD_SYS_STATE_ERR


def test_syndrome_leads_back_to_its_reason(driver):
    answer = driver.command(Op.DEALLOC_PD, pd=0x77)
    assert answer.status == Status.BAD_RES_STATE_ERR
    assert answer.syndrome == syndrome_of("no pd to change or destroy")


def test_signatures_when_asked_for(driver, function):
    current = caps.cmd_hca_cap.view(bytearray(function.hca.caps.page(CapType.GENERAL, CapMode.CUR)))
    current.cmdif_checksum = 3
    function.hca.caps.set(CapType.GENERAL, bytes(current.buf))
    blocks = driver.submit(query_caps(driver), 4112)
    driver.ring(1)
    assert driver.collect(blocks, 16)[0] == DeliveryStat.SIGNAT_ERR
    blocks = driver.submit(query_caps(driver), 4112)
    entry = cmd_layout.view(bytearray(driver.memory.read(driver.queue, 64)))
    entry.sig = ~xor8(entry.buf) & 0xFF
    driver.memory.write(driver.queue, entry.buf)
    driver.ring(1)
    assert xor8(driver.memory.read(driver.queue, 64)) == 0xFF
    for address in blocks[1]:
        block = driver.memory.read(address, cmd_prot_block.size)
        assert xor8(block) == 0xFF
        assert xor8(block[512:-1]) == 0xFF


def test_an_unexpected_exception_becomes_int_err(driver, function, monkeypatch, caplog):
    def explode(*_):
        raise RuntimeError("bug")

    monkeypatch.setattr(function.hca.pds, "add", explode)
    assert driver.command(Op.ALLOC_PD).status == Status.INT_ERR
    assert function.hca.health.internal_errors == 1
    caplog.clear()
    monkeypatch.undo()
    driver.must(Op.ALLOC_PD)


def test_cmd_events_end_with_their_eq(driver):
    events = driver.use_events()
    blocks = driver.submit(query_caps(driver), 4112)
    driver.ring(1)
    assert events.finished_slots() == 1
    driver.collect(blocks, 4112)
    driver.destroy_eq(events.eqn)
    driver.irqs.fired.clear()
    driver.must(Op.QUERY_ADAPTER)
    assert driver.irqs.fired == []
    assert EventType.CMD not in function_events(driver)


def function_events(driver):
    return driver.bar.function.hca.events.subscribers


@pytest.mark.hostile
@given(data=st.binary(min_size=8, max_size=700), outlen=st.integers(8, 700))
@settings(
    max_examples=examples(200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_random_bytes_as_commands(driver, data, outlen):
    delivery, raw = driver.execute(data, outlen)
    assert delivery == DeliveryStat.OK
    assert raw[0] in Status._value2member_map_
    assert driver.bar.function.hca.health.internal_errors == 0
