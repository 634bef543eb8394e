"""General objects: reserved queue pair numbers."""

import pytest

from emu.device.state.caps import GROUPS, MASKS
from layouts.enums.cmd import Op, Status
from layouts.enums.general_object import GeneralObject
from layouts.function.caps import cmd_hca_cap

QPN = GeneralObject.RESERVED_QPN


def reserve(driver):
    return driver.must(Op.CREATE_GENERAL_OBJECT, op_mod=QPN).obj_id


def test_a_reserved_number_is_no_queue_pairs(driver, node):
    taken = {reserve(driver) for _ in range(3)}
    assert len(taken) == 3
    assert node.queue_pair().qpn not in taken
    for number in taken:
        driver.must(Op.DESTROY_GENERAL_OBJECT, op_mod=QPN, obj_id=number)
        answer = driver.command(Op.DESTROY_GENERAL_OBJECT, op_mod=QPN, obj_id=number)
        assert answer.status == Status.BAD_RES_STATE_ERR


def test_a_doorbell_of_a_reserved_number_is_ignored(driver, caplog):
    number = reserve(driver)
    driver.bar.write(driver.uar * 4096 + 0x800, bytes(4) + number.to_bytes(3, "big") + b"\0")
    assert "ignored: no such queue" in caplog.text


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"op_mod": QPN, "log_obj_range": 1}, Status.LIM_ERR),
        ({"op_mod": 0}, Status.BAD_PARAM_ERR),
        ({"op_mod": QPN + 1}, Status.BAD_PARAM_ERR),
    ],
)
def test_what_is_refused(refused, fields, status):
    refused(status, Op.CREATE_GENERAL_OBJECT, **fields)


def test_a_queue_pair_is_no_general_object(node, refused):
    qpn = node.queue_pair().qpn
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_GENERAL_OBJECT, op_mod=QPN, obj_id=qpn)


@pytest.mark.hostile
def test_types_that_the_driver_adds_to_the_capability(cold):
    """Each bit of general_obj_types is a capability of its own, also below the highest one."""
    cold.attach()
    cold.must(Op.ENABLE_HCA)
    page = bytearray(cold.must(Op.QUERY_HCA_CAP, op_mod=1).capability)
    general = cmd_hca_cap.view(page)
    general.general_obj_types = 1 << 9
    answer = cold.command(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page))
    assert answer.status == Status.BAD_PARAM_ERR
    general.general_obj_types = 0
    cold.must(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page))
    cold.must(Op.INIT_HCA)
    assert cold.command(Op.CREATE_GENERAL_OBJECT, op_mod=QPN).status == Status.BAD_PARAM_ERR


def test_masks_are_fields_of_capabilities():
    assert {field.name for group in GROUPS.values() for field in group.prm.fields} >= MASKS
