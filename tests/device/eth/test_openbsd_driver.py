"""Commands as OpenBSD's if_mcx.c sends them, where they differ from mlx5_core's."""

import pytest

from emu.device.objects.eth.flow.table import FlowTable
from emu.driver.ethernet.interfaces import create_tis
from emu.driver.ethernet.rings import sq_fields
from layouts.cmd import MAILBOX_DATA_BYTES
from layouts.enums.cmd import DeliveryStat, Op, Status
from layouts.objects.sq import create_sq_in
from layouts.steering.flow_table import create_flow_table_in, create_flow_table_out

TABLE_BYTES = 60
LINK_OFFSET = 0x230


def sq_input(node, cq, td, log_size=11):
    """CREATE_SQ with a page list, which ends in the first mailbox."""
    fields, ring = sq_fields(
        node.driver, node.pdn, cq.cqn, log_size=log_size, tisn=create_tis(node.driver, td)
    )
    command = create_sq_in.new(opcode=Op.CREATE_SQ, ctx=fields["ctx"])
    return bytes(command.buf) + fields["extra"], len(ring.pages) * 8


def created(driver, data, length):
    """The answer to an input that says it has ``length`` bytes, and has those of ``data``."""
    blocks = driver.submit(data.ljust(length, b"\0"), 16)
    there = -(-(len(data) - 16) // MAILBOX_DATA_BYTES)
    driver.memory.write(blocks[0][there - 1] + LINK_OFFSET, bytes(8))
    driver.ring(1)
    return driver.collect(blocks, 16)


def test_page_list_counted_twice(node, cq, td, function):
    """The length covers a second mailbox, which is not there."""
    data, list_bytes = sq_input(node, cq, td)
    delivery, out = created(node.driver, data, len(data) + list_bytes)
    assert (delivery, out[0]) == (DeliveryStat.OK, Status.OK)
    assert function.hca.sqs.get(int.from_bytes(out[9:12], "big")) is not None


def test_page_list_that_is_not_all_there(node, cq, td, function):
    data, _ = sq_input(node, cq, td, log_size=12)
    delivery, out = created(node.driver, data[: 16 + MAILBOX_DATA_BYTES], len(data))
    assert (delivery, out[0]) == (DeliveryStat.OK, Status.BAD_PARAM_ERR)
    assert not function.hca.sqs


@pytest.mark.parametrize("length", [TABLE_BYTES, create_flow_table_in.size])
def test_flow_table_context_without_software_steering(driver, function, length):
    command = create_flow_table_in.new(
        opcode=Op.CREATE_FLOW_TABLE, flow_table_context={"log_size": 5, "level": 1}
    )
    _, out = driver.execute(bytes(command.buf)[:length], create_flow_table_out.size)
    assert out[0] == Status.OK
    (table,) = function.hca.objects[FlowTable]
    assert (table.level, table.size) == (1, 32)
