"""Shared receive queues in their three forms (hw/srq_cmd.c)."""

from dataclasses import dataclass
from itertools import permutations

import pytest
from helpers.device.refusals import missing

from emu.driver.command.words import pack64
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import RqType


@dataclass(frozen=True)
class Form:
    """The commands of one form, and where each names its queue and describes it."""

    create: Op
    query: Op
    destroy: Op
    number: str
    context: str
    queried: str


FORMS = {
    "rmp": Form(Op.CREATE_RMP, Op.QUERY_RMP, Op.DESTROY_RMP, "rmpn", "ctx", "rmp_context"),
    "xrc": Form(
        Op.CREATE_XRC_SRQ, Op.QUERY_XRC_SRQ, Op.DESTROY_XRC_SRQ, "xrc_srqn",
        "xrc_srq_context_entry", "xrc_srq_context_entry",
    ),
    "srq": Form(
        Op.CREATE_SRQ, Op.QUERY_SRQ, Op.DESTROY_SRQ, "srqn", "srq_context_entry",
        "srq_context_entry",
    ),
}  # fmt: skip
LIMIT = {"rmp": Op.MODIFY_RMP, "xrc": Op.ARM_XRC_SRQ, "srq": Op.ARM_RQ}


class Queues:
    """What the tests do with a form, whichever it is."""

    def __init__(self, driver, name):
        self.driver = driver
        self.name = name
        self.form = FORMS[name]
        self.pdn = driver.alloc_pd()
        self.xrcd = driver.must(Op.ALLOC_XRCD).xrcd
        self.cqn = driver.create_cq(driver.create_eq())

    def fields(self, **context):
        if self.name == "rmp":
            return self.driver.rmp_fields(self.pdn, **context)
        if self.name == "xrc":
            return self.driver.xrc_srq_fields(self.pdn, self.xrcd, self.cqn, **context)
        return self.driver.srq_fields(self.pdn, **context)

    def make(self, **context):
        return getattr(self.driver.must(self.form.create, **self.fields(**context)), self.number)

    @property
    def number(self):
        return self.form.number

    def named(self, number):
        return {self.number: number}

    def lwm(self, number):
        context = getattr(
            self.driver.must(self.form.query, **self.named(number)), self.form.queried
        )
        return context.wq.lwm if self.name == "rmp" else context.lwm

    def arm(self, number, mark):
        if self.name == "rmp":
            fields = {"rmpn": number, "bitmask": {"lwm": 1}, "ctx": {"wq": {"lwm": mark}}}
        else:
            fields = {"xrc_srqn" if self.name == "xrc" else "srq_number": number, "lwm": mark}
        return self.driver.command(LIMIT[self.name], **fields)


@pytest.fixture(params=FORMS)
def queues(driver, request):
    return Queues(driver, request.param)


@pytest.fixture
def pdn(driver):
    return driver.alloc_pd()


def test_query_shows_the_context(driver, queues):
    number = queues.make(page_offset=1)
    answer = driver.must(queues.form.query, **queues.named(number))
    context = getattr(answer, queues.form.queried)
    context = context.wq if queues.name == "rmp" else context
    assert (context.pd, context.page_offset) == (queues.pdn, 1)


def test_limit_is_armed_and_shown(queues):
    number = queues.make()
    assert queues.lwm(number) == 0
    assert queues.arm(number, 3).status == Status.OK
    assert queues.lwm(number) == 3


def test_modify_without_the_limits_bit_changes_nothing(driver, pdn):
    rmpn = driver.create_rmp(pdn)
    driver.must(Op.MODIFY_RMP, rmpn=rmpn, ctx={"wq": {"lwm": 3}})
    assert driver.must(Op.QUERY_RMP, rmpn=rmpn).rmp_context.wq.lwm == 0


def test_destroyed_queue_is_gone(queues, refused):
    number = queues.make()
    queues.driver.must(queues.form.destroy, **queues.named(number))
    refused(Status.BAD_RES_STATE_ERR, queues.form.destroy, **queues.named(number))
    refused(Status.BAD_RES_ERR, queues.form.query, **queues.named(number))
    assert queues.arm(number, 1).status == Status.BAD_RES_STATE_ERR


@pytest.mark.parametrize(("name", "other"), list(permutations(FORMS, 2)))
def test_number_of_another_form(driver, refused, name, other):
    """The three share their numbers: a qpc names any of them in the same field."""
    queues, others = Queues(driver, name), Queues(driver, other)
    number = queues.make()
    for op in (others.form.query, others.form.destroy):
        refused(missing(op), op, **others.named(number))
    assert others.arm(number, 1).status == Status.BAD_RES_STATE_ERR
    assert queues.lwm(number) == 0


def test_queue_in_use(driver, queues, refused):
    number = queues.make()
    fields = {"rq_type": RqType.SRQ, "srqn_rmpn_xrqn": number, "log_rq_size": 0}
    qpn = driver.create_qp(queues.pdn, queues.cqn, **fields)
    refused(Status.BAD_RES_STATE_ERR, queues.form.destroy, **queues.named(number))
    driver.must(Op.DESTROY_QP, qpn=qpn)
    driver.must(queues.form.destroy, **queues.named(number))


def test_queue_holds_what_it_names(driver, queues, refused):
    number = queues.make()
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=queues.pdn)
    if queues.name == "xrc":
        refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_XRCD, xrcd=queues.xrcd)
        refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=queues.cqn)
    driver.must(queues.form.destroy, **queues.named(number))
    driver.must(Op.DEALLOC_PD, pd=queues.pdn)
    driver.must(Op.DEALLOC_XRCD, xrcd=queues.xrcd)
    driver.must(Op.DESTROY_CQ, cqn=queues.cqn)


@pytest.mark.parametrize("pages", [b"", pack64([0]), pack64([0x1_0000_0800])])
def test_pages_that_cannot_be(queues, refused, pages):
    refused(Status.BAD_PARAM_ERR, queues.form.create, **queues.fields() | {"extra": pages})


@pytest.mark.parametrize(
    ("form", "context", "status"),
    [
        ("rmp", {"pd": 0x77}, Status.BAD_RES_ERR),
        ("rmp", {"log_wq_sz": 16}, Status.LIM_ERR),
        ("rmp", {"log_wq_stride": 10}, Status.LIM_ERR),
        ("rmp", {"log_wq_stride": 3}, Status.BAD_PARAM_ERR),
        ("rmp", {"wq_type": 3}, Status.BAD_PARAM_ERR),
        ("rmp", {"basic_cyclic_rcv_wqe": 1}, Status.BAD_PARAM_ERR),
        ("rmp", {"dbr_addr": 0x44}, Status.BAD_PARAM_ERR),
        ("xrc", {"pd": 0}, Status.BAD_RES_ERR),
        ("xrc", {"xrcd": 0x77}, Status.BAD_RES_ERR),
        ("xrc", {"cqn": 0}, Status.BAD_RES_ERR),
        ("xrc", {"log_rq_stride": 6}, Status.LIM_ERR),
        ("xrc", {"basic_cyclic_rcv_wqe": 1}, Status.BAD_PARAM_ERR),
        ("xrc", {"db_record_addr_h": 0}, Status.BAD_PARAM_ERR),
        ("srq", {"pd": 0}, Status.BAD_RES_ERR),
        ("srq", {"xrcd": 0x77}, Status.BAD_RES_ERR),
        ("srq", {"cqn": 0x77}, Status.BAD_RES_ERR),
        ("srq", {"log_rq_stride": 7}, Status.LIM_ERR),
        ("srq", {"dbr_addr": (1 << 64) - 8}, Status.BAD_PARAM_ERR),
    ],
)
def test_context_that_cannot_be(driver, refused, form, context, status):
    queues = Queues(driver, form)
    refused(status, queues.form.create, **queues.fields(**context))


@pytest.mark.parametrize("where", ["context", "command"])
def test_an_xrc_queue_is_not_in_user_memory(driver, refused, where):
    """libmlx5 makes them by CREATE_XRC_SRQ of its kernel driver, which lists the pages."""
    queues = Queues(driver, "xrc")
    fields = queues.fields(**({"dbr_umem_valid": 1} if where == "context" else {}))
    wrong = {"xrc_srq_umem_valid": 1} if where == "command" else {}
    refused(Status.BAD_PARAM_ERR, queues.form.create, **fields | wrong)


def test_older_form_with_a_domain_is_an_xrc_queue(driver, pdn, refused):
    xrcd = driver.must(Op.ALLOC_XRCD).xrcd
    cqn = driver.create_cq(driver.create_eq())
    srqn = driver.create_srq(pdn, xrcd=xrcd, cqn=cqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_XRCD, xrcd=xrcd)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=cqn)
    driver.must(Op.DESTROY_SRQ, srqn=srqn)
    driver.must(Op.DEALLOC_XRCD, xrcd=xrcd)


@pytest.mark.parametrize("limits", [{"log_max_srq": 2}])
def test_every_queue_and_no_more(queues, refused):
    made = [queues.make() for _ in range(3)]
    refused(Status.LIM_ERR, queues.form.create, **queues.fields())
    queues.driver.must(queues.form.destroy, **queues.named(made[0]))
    assert queues.make() == made[0]
