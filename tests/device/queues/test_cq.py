"""Completion queues: what CREATE_CQ takes, keeps and refuses (hw/cq.c)."""

import pytest
from helpers.device.refusals import missing

from emu.driver.command.words import pack64
from emu.driver.world.cable import set_link
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType


@pytest.fixture
def eqn(driver):
    return driver.create_eq()


def test_query_shows_the_context_and_the_pages(driver, eqn):
    fields = driver.cq_fields(eqn, log_size=7)
    cqn = driver.must(Op.CREATE_CQ, **fields).cqn
    answer = driver.must(Op.QUERY_CQ, cqn=cqn, out_extra=8 * 2)
    context = answer.cq_context
    assert (context.log_cq_size, context.c_eqn_or_apu_element) == (7, eqn)
    assert context.dbr_addr == fields["cq_context"]["dbr_addr"]
    assert pack64(answer.pas) == fields["extra"]


@pytest.mark.parametrize("out_extra", [0, 8])
def test_query_without_room_for_the_pages(driver, eqn, out_extra):
    cqn = driver.create_cq(eqn, log_size=7)
    answer = driver.must(Op.QUERY_CQ, cqn=cqn, out_extra=out_extra)
    assert len(answer.pas) == out_extra // 8


def test_compression_is_allowed_and_not_done(driver, eqn):
    """DPDK's driver allows it without asking whether the device can compress."""
    fields = driver.cq_fields(eqn, log_size=7)
    fields["cq_context"] |= {"cqe_comp_en": 1, "mini_cqe_res_format": 1}
    driver.must(Op.CREATE_CQ, **fields)


def test_destroyed_queue_is_gone(driver, eqn, refused):
    cqn = driver.create_cq(eqn)
    driver.must(Op.DESTROY_CQ, cqn=cqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=cqn)
    refused(Status.BAD_RES_ERR, Op.QUERY_CQ, cqn=cqn)


@pytest.mark.parametrize("cqn", [0, 0x77, 0xFFFFFF])
@pytest.mark.parametrize("op", [Op.DESTROY_CQ, Op.QUERY_CQ])
def test_number_that_never_was(refused, op, cqn):
    refused(missing(op), op, cqn=cqn)


def test_queue_in_use(driver, eqn, refused):
    cqn = driver.create_cq(eqn)
    qpn = driver.create_qp(driver.alloc_pd(), cqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=cqn)
    driver.must(Op.DESTROY_QP, qpn=qpn)
    driver.must(Op.DESTROY_CQ, cqn=cqn)


def test_queue_keeps_its_eq(driver, eqn, refused):
    cqn = driver.create_cq(eqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_EQ, eq_number=eqn)
    driver.must(Op.DESTROY_CQ, cqn=cqn)
    driver.destroy_eq(eqn)


def test_refused_eq_keeps_its_events(driver, function, refused):
    """A refused DESTROY_EQ must not take the event types away from the EQ."""
    eqn = driver.create_eq(events=[EventType.PORT_CHANGE])
    driver.create_cq(eqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_EQ, eq_number=eqn)
    set_link(function.hca, up=False)
    assert [entry.type for entry in driver.eqs[eqn].drain()] == [EventType.PORT_CHANGE]


@pytest.mark.parametrize(
    ("context", "status"),
    [
        ({"log_cq_size": 31}, Status.LIM_ERR),
        ({"cqe_sz": 3}, Status.BAD_PARAM_ERR),
        ({"cqe_sz": 7}, Status.BAD_PARAM_ERR),
        ({"c_eqn_or_apu_element": 0}, Status.BAD_RES_ERR),
        ({"c_eqn_or_apu_element": 0x77}, Status.BAD_RES_ERR),
        ({"c_eqn_or_apu_element": 0xFFFFFFFF}, Status.BAD_RES_ERR),
        ({"uar_page": 0}, Status.BAD_RES_ERR),
        ({"uar_page": 0xFFFFFF}, Status.BAD_RES_ERR),
        ({"dbr_addr": 0x1_0000_0004}, Status.BAD_PARAM_ERR),
        ({"dbr_addr": 0}, Status.BAD_PARAM_ERR),
        ({"dbr_addr": (1 << 64) - 8}, Status.BAD_PARAM_ERR),
        ({"log_cq_size": 8}, Status.BAD_PARAM_ERR),
        ({"page_offset": 63}, Status.BAD_PARAM_ERR),
        ({"cqe_sz": 1, "log_cq_size": 6}, Status.BAD_PARAM_ERR),
        ({"log_page_size": 31, "log_cq_size": 20}, Status.BAD_PARAM_ERR),
    ],
    ids=[
        "too long", "reserved entry size", "unknown entry size", "no eq", "dead eq", "wild eq",
        "no uar", "wild uar", "record not aligned", "no record", "record past the end",
        "list too short", "offset moves it past the list", "wide entries past the list",
        "large page that is not all memory",
    ],
)  # fmt: skip
def test_context_that_cannot_be(driver, eqn, refused, context, status):
    refused(status, Op.CREATE_CQ, **driver.cq_fields(eqn, log_size=6) | {"cq_context": {
        **driver.cq_fields(eqn, log_size=6)["cq_context"], **context,
    }})  # fmt: skip


@pytest.mark.parametrize("page", [0, 0x7000_0000_0000, 0x1_0000_0800, (1 << 64) - 4096])
def test_page_that_is_no_guest_memory(driver, eqn, refused, page):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, **driver.cq_fields(eqn) | {"extra": pack64([page])})


def test_queue_without_pages(driver, eqn, refused):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, **driver.cq_fields(eqn) | {"extra": b""})


@pytest.mark.parametrize("limits", [{"log_max_cq": 2}])
def test_every_queue_and_no_more(driver, eqn, refused):
    made = [driver.create_cq(eqn) for _ in range(3)]
    refused(Status.LIM_ERR, Op.CREATE_CQ, **driver.cq_fields(eqn))
    driver.must(Op.DESTROY_CQ, cqn=made[1])
    assert driver.create_cq(eqn) == made[1]
