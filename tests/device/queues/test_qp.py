"""Queue pairs: what CREATE_QP takes, keeps and refuses, and multicast groups (hw/qp.c)."""

import pytest
from helpers.device.refusals import missing

from emu.driver.command.words import pack64
from emu.driver.verbs.parts import Parts
from firmware_cmds.objects.qp import multicast
from layouts.enums.cmd import Op, Status
from layouts.enums.qp import QpState, QpType, RqType
from layouts.function import caps
from layouts.objects.qp import destroy_qp_in

GROUP = b"\xff\x12" + bytes(13) + b"\x01"
UD = {"st": QpType.UD, "log_rq_stride": 0}


NOT_BUILT = (
    "cd_master", "cd_slave_send", "cd_slave_receive", "req_e2e_credit_mode", "offload_type",
    "ulp_stateless_offload_mode", "isolate_vl_tc",
)  # fmt: skip
"""What hangs on capability bits that are not set."""


@pytest.fixture
def parts(driver):
    return Parts(driver)


@pytest.mark.parametrize(
    "context",
    [
        {"st": QpType.RC},
        {"st": QpType.UC},
        UD,
        {"st": QpType.QP0},
        {"st": QpType.QP1},
        {"st": QpType.REG_UMR, "rq_type": RqType.ZERO_LEN_RQ},
        {"st": QpType.RC, "no_sq": 1},
        {"st": QpType.RC, "no_sq": 1, "cs_req": 0x22},
    ],
    ids=["rc", "uc", "ud", "smi", "gsi", "umr", "receive only", "answers of no request"],
)
def test_services(driver, parts, context):
    fields = parts.fields(**context)
    qpn = driver.must(Op.CREATE_QP, **fields).qpn
    answer = driver.must(Op.QUERY_QP, qpn=qpn, out_extra=8)
    assert answer.qpc.state == QpState.RST
    assert answer.qpc.st == context["st"]
    assert answer.qpc.dbr_addr == fields["qpc"]["dbr_addr"]
    assert pack64(answer.pas) == fields["extra"]


def test_number_is_no_well_known_one(parts):
    """0 and 1 are the SMI and the GSI on the wire, whatever carries them here."""
    assert parts.make(st=QpType.QP0) > 1
    assert parts.make(st=QpType.QP1) > 1


def test_xrc_wants_its_domain(driver, parts, refused):
    fields = {"st": QpType.XRC, "rq_type": RqType.ZERO_LEN_RQ}
    refused(Status.BAD_RES_ERR, Op.CREATE_QP, **parts.fields(**fields))
    xrcd = driver.must(Op.ALLOC_XRCD).xrcd
    qpn = parts.make(xrcd=xrcd, **fields)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_XRCD, xrcd=xrcd)
    driver.must(Op.DESTROY_QP, qpn=qpn)
    driver.must(Op.DEALLOC_XRCD, xrcd=xrcd)


@pytest.mark.parametrize(
    ("context", "status"),
    [
        ({"st": QpType.DCT}, Status.BAD_PARAM_ERR),
        ({"st": QpType.RAW_ETHERTYPE}, Status.BAD_PARAM_ERR),
        ({"st": 0xFF}, Status.BAD_PARAM_ERR),
        ({"rq_type": RqType.CRQ}, Status.BAD_PARAM_ERR),
        ({"rq_type": 7}, Status.BAD_PARAM_ERR),
        ({"pd": 0}, Status.BAD_RES_ERR),
        ({"pd": 0xFFFFFF}, Status.BAD_RES_ERR),
        ({"cqn_snd": 0}, Status.BAD_RES_ERR),
        ({"cqn_rcv": 0x77}, Status.BAD_RES_ERR),
        ({"uar_page": 1}, Status.BAD_RES_ERR),
        ({"rq_type": RqType.SRQ}, Status.BAD_RES_ERR),
        ({"rq_type": RqType.SRQ, "srqn_rmpn_xrqn": 0x77}, Status.BAD_RES_ERR),
        ({"counter_set_id": 0x77}, Status.BAD_RES_ERR),
        ({"log_rq_stride": 6}, Status.LIM_ERR),
        ({"dbr_addr": 0}, Status.BAD_PARAM_ERR),
        ({"dbr_addr": 0x1_0000_0001}, Status.BAD_PARAM_ERR),
        ({"page_offset": 63}, Status.BAD_PARAM_ERR),
        ({"end_padding_mode": 2}, Status.BAD_PARAM_ERR),
        *(({name: 1}, Status.BAD_PARAM_ERR) for name in NOT_BUILT),
    ],
)
def test_context_that_cannot_be(parts, refused, context, status):
    refused(status, Op.CREATE_QP, **parts.fields(**context))


@pytest.mark.parametrize("limits", [{"log_max_qp_sz": 5}])
@pytest.mark.parametrize("queue", ["log_sq_size", "log_rq_size"])
def test_ring_longer_than_allowed(parts, refused, queue):
    parts.make(**{queue: 5})
    refused(Status.LIM_ERR, Op.CREATE_QP, **parts.fields(**{queue: 6}))


@pytest.mark.parametrize("service", ["rc", "uc", "ud"])
def test_service_whose_capability_is_off(cold, service):
    """SET_HCA_CAP with the bit at 0 takes the service away."""
    cold.attach()
    cold.must(Op.ENABLE_HCA)
    page = bytearray(cold.must(Op.QUERY_HCA_CAP, op_mod=1).capability)
    setattr(caps.cmd_hca_cap.view(page), service, 0)
    cold.must(Op.SET_HCA_CAP, op_mod=0, capability=bytes(page))
    cold.must(Op.INIT_HCA)
    cold.uar = cold.must(Op.ALLOC_UAR).uar
    answer = cold.command(Op.CREATE_QP, **Parts(cold).fields(st=QpType[service.upper()]))
    assert answer.status == Status.BAD_PARAM_ERR


@pytest.mark.parametrize("page", [0, 0x7000_0000_0000, 0x1_0000_0800])
def test_page_that_is_no_guest_memory(parts, refused, page):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, **parts.fields() | {"extra": pack64([page])})


def test_queue_pair_without_rings_needs_no_memory(driver, parts):
    fields = parts.fields(no_sq=1, rq_type=RqType.ZERO_LEN_RQ, dbr_addr=0) | {"extra": b""}
    driver.must(Op.CREATE_QP, **fields)


def test_queue_pair_holds_what_it_names(driver, parts, refused):
    counter = driver.must(Op.ALLOC_Q_COUNTER).counter_set_id
    qpn = parts.make(counter_set_id=counter)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=parts.pdn)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_CQ, cqn=parts.cqn)
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_Q_COUNTER, counter_set_id=counter)
    driver.must(Op.DESTROY_QP, qpn=qpn)
    driver.must(Op.DEALLOC_PD, pd=parts.pdn)
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=counter)
    driver.must(Op.DESTROY_CQ, cqn=parts.cqn)


def test_destroyed_queue_pair_is_gone(driver, parts, refused):
    qpn = parts.make()
    driver.must(Op.DESTROY_QP, qpn=qpn)
    for op in (Op.DESTROY_QP, Op.QUERY_QP, Op.RST2INIT_QP, Op._2ERR_QP, Op._2RST_QP):
        refused(missing(op), op, qpn=qpn)


@pytest.mark.parametrize("qpn", [0, 1, 0x3F, 0xFFFFFF])
@pytest.mark.parametrize("op", [Op.DESTROY_QP, Op.QUERY_QP, Op._2ERR_QP, Op.ATTACH_TO_MCG])
def test_number_that_never_was(refused, op, qpn):
    refused(missing(op), op, qpn=qpn)


@pytest.mark.parametrize("limits", [{"log_max_qp": 7, "log_max_sq": 7, "log_max_rq": 7}])
def test_every_queue_pair_and_no_more(driver, parts, refused):
    made = [parts.make() for _ in range(64)]
    assert made == list(range(0x40, 0x80))
    refused(Status.LIM_ERR, Op.CREATE_QP, **parts.fields())
    driver.must(Op.DESTROY_QP, qpn=made[5])
    assert parts.make() == made[5]


# Multicast groups.


def test_group_is_joined_and_left_once(driver, parts, refused):
    qpn = parts.make(**UD)
    refused(Status.BAD_RES_STATE_ERR, Op.DETACH_FROM_MCG, qpn=qpn, multicast_gid=GROUP)
    driver.must(Op.ATTACH_TO_MCG, qpn=qpn, multicast_gid=GROUP)
    refused(Status.BAD_RES_STATE_ERR, Op.ATTACH_TO_MCG, qpn=qpn, multicast_gid=GROUP)
    driver.must(Op.DETACH_FROM_MCG, qpn=qpn, multicast_gid=GROUP)
    refused(Status.BAD_RES_STATE_ERR, Op.DETACH_FROM_MCG, qpn=qpn, multicast_gid=GROUP)


def test_group_is_for_datagrams(parts, refused):
    qpn = parts.make(st=QpType.RC)
    refused(Status.BAD_PARAM_ERR, Op.ATTACH_TO_MCG, qpn=qpn, multicast_gid=GROUP)


def test_destroyed_queue_pair_has_left_its_groups(driver, function, parts):
    qpn, other = parts.make(**UD), parts.make(**UD)
    for number in (qpn, other):
        driver.must(Op.ATTACH_TO_MCG, qpn=number, multicast_gid=GROUP)
    driver.must(Op.DESTROY_QP, qpn=qpn)
    assert [member.handle for member in function.hca.mcgs[GROUP]] == [other]
    driver.must(Op.DESTROY_QP, qpn=other)
    assert not function.hca.mcgs


@pytest.mark.hostile
def test_a_queue_pair_leaves_many_groups_in_steps(driver, function, parts, monkeypatch):
    """A million memberships would take a second; meanwhile another command finds it in use."""
    monkeypatch.setattr(multicast, "GROUPS_PER_PORTION", 2)
    qpn, stays = parts.make(**UD), parts.make(**UD)
    for number in range(7):
        driver.must(Op.ATTACH_TO_MCG, qpn=qpn, multicast_gid=GROUP[:-1] + bytes([number]))
    driver.must(Op.ATTACH_TO_MCG, qpn=stays, multicast_gid=GROUP[:-1] + bytes([0]))
    qp, destroys = function.hca.qps.need(qpn), destroy_qp_in.new(opcode=Op.DESTROY_QP, qpn=qpn)
    blocks = [driver.submit(destroys.buf, 16, slot) for slot in (1, 2)]
    driver.write32(0x018, 0b110)
    left = []
    while function.run():
        left.append(len(qp.mcgs))
    assert left == [5, 3, 1]
    answers = [driver.collect(blocks[slot - 1], 16, slot)[1] for slot in (1, 2)]
    assert [answer[0] for answer in answers] == [Status.OK, Status.BAD_RES_STATE_ERR]
    assert function.hca.qps.get(qpn) is None
    assert [len(members) for members in function.hca.mcgs.values()] == [1]


@pytest.mark.parametrize("limits", [{"log_max_mcg": 1, "max_qp_mcg": 2}])
def test_groups_and_their_members_are_bounded(driver, parts, refused):
    first, second, third = (parts.make(**UD) for _ in range(3))
    groups = [GROUP[:-1] + bytes([number]) for number in range(3)]
    driver.must(Op.ATTACH_TO_MCG, qpn=first, multicast_gid=groups[0])
    driver.must(Op.ATTACH_TO_MCG, qpn=first, multicast_gid=groups[1])
    refused(Status.LIM_ERR, Op.ATTACH_TO_MCG, qpn=first, multicast_gid=groups[2])
    driver.must(Op.ATTACH_TO_MCG, qpn=second, multicast_gid=groups[0])
    refused(Status.LIM_ERR, Op.ATTACH_TO_MCG, qpn=third, multicast_gid=groups[0])
    driver.must(Op.DETACH_FROM_MCG, qpn=first, multicast_gid=groups[0])
    driver.must(Op.ATTACH_TO_MCG, qpn=third, multicast_gid=groups[0])
