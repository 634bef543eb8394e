"""Whatever a driver gets wrong: one answer, one line in the log, nothing changed, and on it goes.

Each object's own tests say which status a wrong value has. Here are all kinds of mistakes once,
each held to the same rules.
"""

import logging

import pytest
from helpers.device.snapshot import snapshot
from helpers.random.random_commands import DESTROYS

from emu.device.cmdif.registry import COMMANDS
from emu.driver.verbs.parts import Parts
from layouts.cmd import MAILBOX_DATA_BYTES, cmd_layout, cmd_prot_block
from layouts.enums.cmd import DeliveryStat, Op, Status, op_name

pytestmark = pytest.mark.hostile

NOT_RAM = 0x7000_0000_0000
UNKNOWN_OP = 0x0999
QUERY_CAPS = int(Op.QUERY_HCA_CAP).to_bytes(2, "big") + bytes(4) + b"\0\1" + bytes(8)
CAPS_BYTES = 16 + 4096
ALLOC_PD = int(Op.ALLOC_PD).to_bytes(2, "big") + bytes(14)


@pytest.fixture
def furnished(driver):
    """A driver with something of everything, the handles' numbers all apart."""
    parts = Parts(driver)
    driver.objects = {"pds": parts.pdn, "cqs": parts.cqn, "qps": parts.make()}
    driver.objects["eqs"] = next(iter(driver.eqs))
    driver.objects["mkeys"] = driver.create_mkey(parts.pdn)
    driver.objects["srqs"] = driver.create_rmp(parts.pdn)
    return driver


@pytest.fixture
def mistake(furnished, function, caplog):
    """Makes one and holds the device to the rules; gives back what the mistake returned."""

    def make(do, *args):
        before = snapshot(function.hca)
        caplog.clear()
        result = do(furnished, *args)
        lines = [record.getMessage() for record in caplog.records if record.levelno > logging.INFO]
        assert len(lines) == 1, lines
        assert snapshot(function.hca) == before
        assert furnished.must(Op.QUERY_ADAPTER).status == Status.OK
        return result

    return make


# Commands that cannot be delivered.


def spoil_entry(driver, **change):
    """A good command, but for the queue entry."""
    blocks = driver.submit(QUERY_CAPS, CAPS_BYTES)
    entry = cmd_layout.view(bytearray(driver.memory.read(driver.queue, 64)))
    entry.assign(change)
    driver.memory.write(driver.queue, entry.buf)
    driver.ring(1)
    return driver.collect(blocks, 16)[0]


def spoil_block(driver, number, **change):
    """A good command, but for one mailbox of the answer's."""
    blocks = driver.submit(QUERY_CAPS, CAPS_BYTES)
    address = blocks[1][number]
    block = cmd_prot_block.view(bytearray(driver.memory.read(address, cmd_prot_block.size)))
    block.assign({name: blocks[1][0] if v == "first" else v for name, v in change.items()})
    driver.memory.write(address, block.buf)
    driver.ring(1)
    return driver.collect(blocks, 16)[0]


@pytest.mark.parametrize(
    ("change", "delivery"),
    [
        ({"type": 0}, DeliveryStat.CMD_DESCR_ERR),
        ({"inlen": 0}, DeliveryStat.IN_LENGTH_ERR),
        ({"inlen": 1 << 31}, DeliveryStat.IN_LENGTH_ERR),
        ({"outlen": 7}, DeliveryStat.OUT_LENGTH_ERR),
        ({"out_ptr": 0}, DeliveryStat.OUT_LENGTH_ERR),
        ({"out_ptr": NOT_RAM}, DeliveryStat.FW_ERR),
        ({"out_ptr": 0x1_0000_0001}, DeliveryStat.OUT_PTR_ALIGN_ERR),
    ],
    ids=lambda value: value.name if isinstance(value, DeliveryStat) else str(value),
)
def test_queue_entry(mistake, change, delivery):
    assert mistake(lambda driver: spoil_entry(driver, **change)) == delivery


@pytest.mark.parametrize(
    ("change", "delivery"),
    [
        ({"next": 0}, DeliveryStat.OUT_LENGTH_ERR),
        ({"next": "first"}, DeliveryStat.BAD_BLK_NUM_ERR),
        ({"next": NOT_RAM}, DeliveryStat.FW_ERR),
        ({"token": 0}, DeliveryStat.TOK_ERR),
    ],
    ids=["short", "circular", "outside", "foreign"],
)
def test_mailbox_chain(mistake, change, delivery):
    assert mistake(lambda driver: spoil_block(driver, 2, **change)) == delivery


def test_command_queue_outside_memory(mistake):
    def move(driver):
        queue = driver.queue
        driver.queue = NOT_RAM
        driver.attach()
        driver.ring(1)
        driver.queue = queue
        driver.attach()

    mistake(move)


def test_slot_that_is_not_the_devices(mistake):
    mistake(lambda driver: driver.ring(1 << 3))


# Commands that are delivered and refused.


def test_unknown_opcode(mistake, furnished, caplog):
    """Its line comes once, then it is only counted."""
    data = UNKNOWN_OP.to_bytes(2, "big") + bytes(14)
    _, answer = mistake(lambda driver: driver.execute(data, 16))
    assert answer[0] == Status.BAD_OP_ERR
    caplog.clear()
    assert furnished.execute(data, 16)[1][0] == Status.BAD_OP_ERR
    assert not caplog.records


@pytest.mark.parametrize(
    ("data", "room", "status"),
    [
        (QUERY_CAPS[:12], CAPS_BYTES, Status.BAD_INP_LEN_ERR),
        (QUERY_CAPS, 15, Status.BAD_OUTP_LEN_ERR),
        (int(Op.CREATE_QP).to_bytes(2, "big") + bytes(100), 16, Status.BAD_INP_LEN_ERR),
        (ALLOC_PD + bytes(MAILBOX_DATA_BYTES + 1), 16, Status.BAD_INP_LEN_ERR),
        (ALLOC_PD + bytes(1 << 20), 16, Status.BAD_INP_LEN_ERR),
    ],
    ids=["short input", "short output", "no context", "long input", "mebibyte"],
)
def test_length(mistake, data, room, status):
    assert mistake(lambda driver: driver.execute(data, room))[1][0] == status


@pytest.mark.parametrize("more", [0, 4, 240, MAILBOX_DATA_BYTES])
def test_what_a_sloppy_length_adds_is_ignored(driver, function, more):
    """Programs send structures of newer drivers, or a whole context where none is wanted."""
    before = len(function.hca.pds)
    assert driver.execute(ALLOC_PD + b"\xff" * more, 16)[1][0] == Status.OK
    assert len(function.hca.pds) == before + 1


@pytest.mark.parametrize("op", sorted(COMMANDS), ids=op_name)
def test_input_of_another_block(driver, function, op):
    """No command takes it but those whose input ends with a list."""
    command = COMMANDS[op]
    before = snapshot(function.hca)
    data = int(op).to_bytes(2, "big") + bytes(max(command.layout_in.size, 16) + 511)
    assert len(data) == max(command.layout_in.size, 16) + MAILBOX_DATA_BYTES + 1
    if command.layout_in.has_tail():
        assert command.max_in >= 1 << 20
    else:
        assert driver.execute(data, 4112)[1][0] == Status.BAD_INP_LEN_ERR
        assert snapshot(function.hca) == before


ENDS = {
    "qps": Op.DESTROY_QP, "srqs": Op.DESTROY_RMP, "mkeys": Op.DESTROY_MKEY, "cqs": Op.DESTROY_CQ,
    "eqs": Op.DESTROY_EQ, "pds": Op.DEALLOC_PD,
}  # fmt: skip
"""What ends an object of each table, users before what they use."""


def end(driver, table, handle):
    op = ENDS[table]
    return driver.command(op, **{DESTROYS[op][1]: handle}).status


@pytest.mark.parametrize("table", ENDS)
def test_handle_of_nothing(mistake, function, table):
    beyond = getattr(function.hca, table).limit & 0xFFFFFF or 0xFFFFFF
    handle = beyond & 0xFF if table == "eqs" else beyond
    assert mistake(end, table, handle) == Status.BAD_RES_STATE_ERR


@pytest.mark.parametrize("table", ENDS)
def test_handle_of_another_type(mistake, furnished, function, table):
    own = {item.handle for item in getattr(function.hca, table)}
    others = {handle for name, handle in furnished.objects.items() if name != table} - own
    assert mistake(end, table, max(n for n in others if n < 256)) == Status.BAD_RES_STATE_ERR


@pytest.mark.parametrize("table", ENDS)
def test_handle_of_what_is_gone(mistake, furnished, table):
    for name, handle in [(name, furnished.objects[name]) for name in ENDS]:
        assert end(furnished, name, handle) == Status.OK
        if name == table:
            break
    assert mistake(end, table, furnished.objects[table]) == Status.BAD_RES_STATE_ERR


@pytest.mark.parametrize("table", ["cqs", "eqs", "pds"])
def test_what_is_still_used(mistake, furnished, table):
    assert mistake(end, table, furnished.objects[table]) == Status.BAD_RES_STATE_ERR


@pytest.mark.parametrize(
    ("op", "fields"),
    [
        (Op.CREATE_CQ, {"cq_context": {"log_cq_size": 31}}),
        (Op.CREATE_EQ, {"eq_context_entry": {"log_eq_size": 31}}),
    ],
    ids=lambda value: value.name if isinstance(value, Op) else "",
)
def test_limit(mistake, furnished, op, fields):
    """Above what the capabilities say."""
    objects = furnished.objects
    base = {
        Op.CREATE_CQ: lambda: furnished.cq_fields(objects["eqs"]),
        Op.CREATE_EQ: lambda: {"eq_context_entry": {"uar_page": furnished.uar}},
    }[op]()
    for name, change in fields.items():
        base[name] = base[name] | change
    assert mistake(lambda driver: driver.command(op, **base)).status == Status.LIM_ERR


# Doorbells that mean nothing.


@pytest.mark.parametrize(
    ("page", "offset", "value", "length"),
    [
        ("own", 0x20, 0xFFFFFF, 8),  # arms a CQ
        ("own", 0x40, 0x77 << 24, 4),  # arms an EQ
        ("own", 0x800, 0xFFFFFF00, 8),  # rings a queue pair
        ("none", 0x800, 0x4000, 8),  # in a page that nobody has
    ],
    ids=["CQ", "EQ", "QP", "page"],
)
def test_doorbell(mistake, page, offset, value, length):
    def ring(driver):
        at = (driver.uar if page == "own" else driver.uar + 100) << 12 | offset
        driver.bar.write(at, value.to_bytes(length, "big"))
        driver.bar.settle()

    mistake(ring)
