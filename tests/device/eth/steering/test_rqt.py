"""Receive queue tables: what an indirect TIR picks from."""

import pytest
from helpers.device.refusals import missing

from emu.device.objects.eth.tir import Rqt
from emu.driver.ethernet.interfaces import (
    alloc_td,
    create_indirect_tir,
    create_rqt,
    modify_rqt,
    query_rqt,
    rqt_context,
)
from layouts.enums.cmd import Op, Status


@pytest.fixture
def limits():
    """Tables of 256 queues at most."""
    return {"log_max_rqt_size": 8}


def test_life_of_a_table(driver, function, rqns):
    """It begins with the drop RQ everywhere; the open netdev fills in the channels' RQs."""
    drop = rqns[0]
    rqtn = create_rqt(driver, [drop] * 256)
    assert query_rqt(driver, rqtn) == (256, 256, [drop] * 256)
    assert function.hca.rqs.get(drop).refs == 256
    channels = [rqns[1 + n % 3] for n in range(256)]
    modify_rqt(driver, rqtn, channels)
    assert query_rqt(driver, rqtn) == (256, 256, channels)
    assert [function.hca.rqs.get(rqn).refs for rqn in rqns] == [0, 86, 85, 85]
    modify_rqt(driver, rqtn, [drop])
    assert query_rqt(driver, rqtn) == (256, 1, [drop])
    driver.must(Op.DESTROY_RQT, rqtn=rqtn)
    assert not any(function.hca.rqs.get(rqn).refs for rqn in rqns)


def test_grows_up_to_its_maximum(driver, function, rqns, refused):
    """A direct table of a channel has one RQ and room for as many as an indirect one."""
    rqtn = create_rqt(driver, rqns[:1], limit=128)
    before = function.hca.ledger.accounts[Rqt.kind]
    modify_rqt(driver, rqtn, rqns * 32)
    assert query_rqt(driver, rqtn) == (128, 128, rqns * 32)
    assert function.hca.ledger.accounts[Rqt.kind] == before + 127 * Rqt.ENTRY_BYTES
    fields, extra = rqt_context([rqns[0]] * 129)
    bitmask = {"rqn_list": 1}
    refused(
        Status.BAD_PARAM_ERR, Op.MODIFY_RQT, rqtn=rqtn, bitmask=bitmask, ctx=fields, extra=extra
    )


def test_query_with_little_room(driver, rqns):
    rqtn = create_rqt(driver, rqns)
    assert query_rqt(driver, rqtn, room=2) == (4, 4, rqns[:2])


def test_without_the_bit_nothing_changes(driver, rqns, refused):
    rqtn = create_rqt(driver, rqns)
    fields, extra = rqt_context(rqns[:1])
    driver.must(Op.MODIFY_RQT, rqtn=rqtn, ctx=fields, extra=extra)
    assert query_rqt(driver, rqtn) == (4, 4, rqns)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"rqt_actual_size": 0}, Status.BAD_PARAM_ERR),
        ({"rqt_actual_size": 5}, Status.BAD_PARAM_ERR),
        ({"rqt_actual_size": 5, "rqt_max_size": 8}, Status.BAD_INP_LEN_ERR),
        ({"rqt_max_size": 257}, Status.LIM_ERR),
        ({"rqt_max_size": 0xFFFF}, Status.LIM_ERR),
        ({"rqt_max_size": 0}, Status.BAD_PARAM_ERR),
        ({"list_q_type": 1}, Status.BAD_PARAM_ERR),
        ({"rq_vhca_id_format": 1}, Status.BAD_PARAM_ERR),
    ],
)
def test_tables_that_cannot_be(driver, rqns, refused, wrong, status):
    fields, extra = rqt_context(rqns)
    refused(status, Op.CREATE_RQT, rqt_context=fields | wrong, extra=extra)


def test_rq_that_is_not_there(driver, rqns, refused):
    for wrong in (0, rqns[-1] + 1, 0xFFFFFF):
        fields, extra = rqt_context([*rqns, wrong])
        refused(Status.BAD_RES_ERR, Op.CREATE_RQT, rqt_context=fields, extra=extra)
    rqtn = create_rqt(driver, rqns * 2)
    fields, extra = rqt_context([*rqns, 0])
    refused(
        Status.BAD_RES_ERR, Op.MODIFY_RQT, rqtn=rqtn, bitmask={"rqn_list": 1}, ctx=fields,
        extra=extra,
    )  # fmt: skip


@pytest.mark.parametrize("bitmask", [bytes(7) + b"\2", b"\1" + bytes(7)])
def test_only_the_list_is_modified(driver, rqns, refused, bitmask):
    rqtn = create_rqt(driver, rqns * 2)
    fields, extra = rqt_context(rqns)
    change = {"rqtn": rqtn, "ctx": fields, "extra": extra}
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_RQT, bitmask=bitmask, **change)
    driver.must(Op.MODIFY_RQT, bitmask={"rqn_list": 1}, **change)


def test_table_in_use_stays(driver, rqns, refused):
    rqtn = create_rqt(driver, rqns)
    tirn = create_indirect_tir(driver, alloc_td(driver), rqtn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_RQT, rqtn=rqtn)
    modify_rqt(driver, rqtn, rqns[:1])
    driver.must(Op.DESTROY_TIR, tirn=tirn)
    driver.must(Op.DESTROY_RQT, rqtn=rqtn)
    for op in (Op.QUERY_RQT, Op.DESTROY_RQT, Op.MODIFY_RQT):
        refused(missing(op), op, rqtn=rqtn)
