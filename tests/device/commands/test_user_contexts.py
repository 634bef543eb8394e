"""DEVX: objects belong to the user context whose uid made them (devx.c), and user memory.

The driver writes the uid into the header of each command that it passes on for a process.
"""

import pytest

from emu.device.errors import syndrome_of
from emu.driver.command.words import pack64
from layouts.enums.cmd import Op, Status
from layouts.enums.mkey import AccessMode

SHARED = 0xFFFF
PAGE = 4096


@pytest.fixture
def users(driver):
    return [driver.must(Op.CREATE_UCTX).uid for _ in range(2)]


def umem_fields(pages, *, offset=0, log_page_size=0, rights=3):
    umem = {"num_of_mtt": len(pages), "page_offset": offset, "log_page_size": log_page_size}
    return {"umem": umem, "extra": pack64([page | rights for page in pages])}


@pytest.fixture
def memory_of(driver):
    """Makes user memory of pages that do not lie together: (its number, the pages)."""

    def make(uid, size=2 * PAGE, **options):
        pages = driver.memory.pages(size)
        return driver.must(Op.CREATE_UMEM, uid=uid, **umem_fields(pages, **options)).umem_id, pages

    return make


def test_user_contexts_are_different_and_end(driver, users, refused):
    assert len({0, SHARED, *users}) == 4
    driver.must(Op.DESTROY_UCTX, uid=users[0])
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_UCTX, uid=users[0])


def test_command_for_no_user_context(driver, refused):
    refused(Status.BAD_RES_ERR, Op.ALLOC_PD, uid=77)


def test_capabilities_that_the_device_does_not_have(driver, refused):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_UCTX, uctx={"cap": 2})


@pytest.mark.parametrize("limits", [{"log_max_uctx": 1}])
def test_no_more_user_contexts_than_advertised(driver, refused):
    driver.must(Op.CREATE_UCTX)
    refused(Status.LIM_ERR, Op.CREATE_UCTX)


def test_a_user_has_its_own_objects_only(driver, users, refused):
    mine, other = users
    pd = driver.must(Op.ALLOC_PD, uid=mine).pd
    context = {"pd": pd, "access_mode_1_0": AccessMode.KLMS, "qpn": 0xFFFFFF}
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, uid=other, pd=pd)
    refused(Status.BAD_RES_ERR, Op.CREATE_MKEY, uid=other, memory_key_mkey_entry=context)
    refused(Status.BAD_RES_ERR, Op.CREATE_PSV, pd=driver.alloc_pd(), num_psv=1, **as_user(mine))
    key = driver.must(Op.CREATE_MKEY, uid=mine, memory_key_mkey_entry=context).mkey_index
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_MKEY, uid=other, mkey_index=key)
    driver.must(Op.DESTROY_MKEY, uid=mine, mkey_index=key)
    driver.must(Op.DEALLOC_PD, uid=mine, pd=pd)


def as_user(uid):
    """The uid where the driver's own layout leaves the header's word reserved."""
    return {"_uid": uid}


def test_the_driver_has_all_objects(driver, users):
    pd = driver.must(Op.ALLOC_PD, uid=users[0]).pd
    key = driver.create_mkey(pd)
    driver.must(Op.DESTROY_MKEY, mkey_index=key)
    driver.must(Op.DEALLOC_PD, pd=pd)


def test_shared_objects_are_for_all_to_use_and_for_none_to_destroy(driver, users, refused):
    """The driver makes counter sets and completion EQs for everybody."""
    number = driver.must(Op.ALLOC_Q_COUNTER, uid=SHARED).counter_set_id
    driver.must(Op.QUERY_Q_COUNTER, counter_set_id=number, **as_user(users[0]))
    fields = {"counter_set_id": number, **as_user(users[0])}
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_Q_COUNTER, **fields)
    driver.must(Op.DEALLOC_Q_COUNTER, counter_set_id=number)


def test_context_with_objects_stays(driver, users, refused):
    """Its uid could be given to somebody else, who would own what is left."""
    pd = driver.must(Op.ALLOC_PD, uid=users[0]).pd
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_UCTX, uid=users[0])
    driver.must(Op.DEALLOC_PD, uid=users[0], pd=pd)
    driver.must(Op.DESTROY_UCTX, uid=users[0])


# User memory.


def test_queues_in_user_memory(driver, users, memory_of, refused, node):
    """A CQ and its doorbell record by number and offset; the memory stays while they live."""
    uid = users[0]
    number, pages = memory_of(uid, 3 * PAGE)
    uar = driver.must(Op.ALLOC_UAR, uid=uid).uar
    eqn = driver.must(Op.CREATE_EQ, uid=SHARED, **driver.eq_fields()).eq_number
    context = {
        "log_cq_size": 6, "c_eqn_or_apu_element": eqn, "uar_page": uar,
        "dbr_umem_valid": 1, "dbr_umem_id": number, "dbr_addr": 2 * PAGE + 64,
    }  # fmt: skip
    fields = {"cq_umem_valid": 1, "cq_umem_id": number, "cq_umem_offset": PAGE}
    cqn = driver.must(Op.CREATE_CQ, uid=uid, cq_context=context, **fields).cqn
    cq = node.hca.cqs.get(cqn)
    assert cq.dbr_addr == pages[2] + 64
    assert cq.buffer.address(0) == pages[1]
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_UMEM, uid=uid, umem_id=number)
    for offset in (2 * PAGE + 1, 2 * PAGE + 64, 3 * PAGE, 1 << 63):
        refused(
            Status.BAD_PARAM_ERR, Op.CREATE_CQ, uid=uid, cq_context=context,
            **fields | {"cq_umem_offset": offset},
        )  # fmt: skip
    resize = {
        "op_mod": 1, "cqn": cqn, "modify_field_select_resize_field_select": 7,
        "cq_context": {"log_cq_size": 5}, "extra": pack64(node.memory.pages(64 << 5)),
    }  # fmt: skip
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_CQ, uid=uid, **resize)
    driver.must(Op.DESTROY_CQ, uid=uid, cqn=cqn)
    driver.must(Op.DESTROY_UMEM, uid=uid, umem_id=number)


def test_a_driver_without_a_user_context(driver, memory_of):
    """A driver in a process has its rings in user memory as well (umem_uid_0)."""
    assert driver.caps.umem_uid_0
    (ring, _), (records, _) = memory_of(0), memory_of(0)
    context = {
        "log_cq_size": 5, "c_eqn_or_apu_element": driver.create_eq(),
        "uar_page": driver.must(Op.ALLOC_UAR).uar, "dbr_umem_valid": 1, "dbr_umem_id": records,
    }  # fmt: skip
    fields = {"cq_umem_valid": 1, "cq_umem_id": ring}
    cqn = driver.must(Op.CREATE_CQ, cq_context=context, **fields).cqn
    driver.must(Op.DESTROY_CQ, cqn=cqn)
    for number in (ring, records):
        driver.must(Op.DESTROY_UMEM, umem_id=number)


def test_queue_is_not_resized_into_user_memory(driver, users, memory_of, refused, node):
    uid = users[0]
    fields = {
        "op_mod": 1, "cqn": user_cq(driver, uid), "modify_field_select_resize_field_select": 7,
        "cq_context": {"log_cq_size": 5}, "extra": pack64(node.memory.pages(64 << 5)),
    }  # fmt: skip
    wrong = {"cq_umem_valid": 1, "cq_umem_id": memory_of(uid, 2 * PAGE)[0]}
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_CQ, uid=uid, **fields | wrong)
    driver.must(Op.MODIFY_CQ, uid=uid, **fields)


def test_queue_that_is_not_aligned_in_its_memory(driver, users, memory_of, refused):
    """A CQ of 4 KiB may begin at any entry of the user's memory, and not inside one."""
    uid = users[0]
    number, _ = memory_of(uid, 3 * PAGE)
    eqn = driver.must(Op.CREATE_EQ, uid=SHARED, **driver.eq_fields()).eq_number
    context = {
        "log_cq_size": 6, "c_eqn_or_apu_element": eqn,
        "uar_page": driver.must(Op.ALLOC_UAR, uid=uid).uar,
        "dbr_umem_valid": 1, "dbr_umem_id": number, "dbr_addr": 2 * PAGE,
    }  # fmt: skip
    fields = {"uid": uid, "cq_context": context, "cq_umem_valid": 1, "cq_umem_id": number}
    refused(Status.BAD_PARAM_ERR, Op.CREATE_CQ, **fields, cq_umem_offset=32)
    driver.must(Op.CREATE_CQ, **fields, cq_umem_offset=64)


def test_rings_in_user_memory(driver, users, memory_of, node):
    uid = users[0]
    number, pages = memory_of(uid, 3 * PAGE)
    pd = driver.must(Op.ALLOC_PD, uid=uid).pd
    fields = driver.qp_fields(pd, 0, rq_type=3)
    fields.pop("extra")
    umem = {"dbr_umem_valid": 1, "dbr_umem_id": number, "dbr_addr": 8}
    fields["qpc"] |= umem | {"no_sq": 1, "rq_type": 0, "cqn_rcv": user_cq(driver, uid)}
    qpn = driver.must(
        Op.CREATE_QP, uid=uid, wq_umem_valid=1, wq_umem_id=number, wq_umem_offset=PAGE, **fields
    ).qpn
    assert node.hca.qps.get(qpn).buffer.address(0) == pages[1]
    wq = umem | {
        "pd": pd, "log_wq_sz": 2, "log_wq_stride": 5, "wq_umem_valid": 1, "wq_umem_id": number,
        "wq_umem_offset": 2 * PAGE,
    }  # fmt: skip
    rmpn = driver.must(Op.CREATE_RMP, uid=uid, ctx={"wq": wq}).rmpn
    assert node.hca.umems.get(number).refs == 4
    driver.must(Op.DESTROY_RMP, uid=uid, rmpn=rmpn)
    driver.must(Op.DESTROY_QP, uid=uid, qpn=qpn)
    assert node.hca.umems.get(number).refs == 0


def user_cq(driver, uid):
    eqn = driver.must(Op.CREATE_EQ, uid=SHARED, **driver.eq_fields()).eq_number
    fields = driver.cq_fields(eqn)
    fields["cq_context"]["uar_page"] = driver.must(Op.ALLOC_UAR, uid=uid).uar
    return driver.must(Op.CREATE_CQ, uid=uid, **fields).cqn


NOT_INSIDE = "key leaves its umem"
PAGE_SIZE = "page size of the key does not fit its umem"


def test_key_over_user_memory(driver, users, memory_of, node, refused):
    uid = users[0]
    number, pages = memory_of(uid, 4 * PAGE, offset=0)
    pd = driver.must(Op.ALLOC_PD, uid=uid).pd
    context = {
        "pd": pd, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "log_page_size": 12,
        "start_addr": 0x1000_0000, "len": 2 * PAGE, "translations_octword_size": 1,
    }  # fmt: skip
    fields = {"mkey_umem_valid": 1, "mkey_umem_id": number, "mkey_umem_offset": PAGE}
    index = driver.must(Op.CREATE_MKEY, uid=uid, memory_key_mkey_entry=context, **fields).mkey_index
    assert [entry & ~3 for entry in node.hca.mkeys.get(index).entries] == pages[1:3]
    for wrong, reason in (
        ({"len": 4 * PAGE, "translations_octword_size": 2}, NOT_INSIDE),
        ({"start_addr": 8, "translations_octword_size": 2}, NOT_INSIDE),
        ({"log_page_size": 13}, PAGE_SIZE),
        ({"log_page_size": 11, "free": 1}, PAGE_SIZE),
        ({"len": 3 * PAGE}, "key is too short for the pages of its umem"),
        ({"access_mode_1_0": AccessMode.KLMS}, "only a key of pages can lie over a umem"),
    ):
        given = fields | {"memory_key_mkey_entry": context | wrong}
        answer = refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, uid=uid, **given)
        assert answer.syndrome == syndrome_of(reason)


@pytest.mark.parametrize("offset", [4 * PAGE, 5 * PAGE])
def test_key_of_no_bytes_behind_user_memory(driver, users, memory_of, refused, offset):
    uid = users[0]
    number, _ = memory_of(uid, 4 * PAGE, offset=0)
    context = {
        "pd": driver.must(Op.ALLOC_PD, uid=uid).pd, "qpn": 0xFFFFFF,
        "access_mode_1_0": AccessMode.MTT, "log_page_size": 12, "translations_octword_size": 1,
    }  # fmt: skip
    fields = {"memory_key_mkey_entry": context, "mkey_umem_valid": 1, "mkey_umem_id": number}
    answer = refused(
        Status.BAD_PARAM_ERR, Op.CREATE_MKEY, uid=uid, mkey_umem_offset=offset, **fields
    )
    assert answer.syndrome == syndrome_of(NOT_INSIDE)
    driver.must(Op.CREATE_MKEY, uid=uid, mkey_umem_offset=0, **fields)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"num_of_mtt": 0}, Status.BAD_PARAM_ERR),
        ({"num_of_mtt": 3}, Status.BAD_INP_LEN_ERR),
        ({"num_of_mtt": (1 << 64) - 1}, Status.BAD_INP_LEN_ERR),
        ({"page_offset": PAGE}, Status.BAD_PARAM_ERR),
        ({"log_page_size": 31}, Status.BAD_PARAM_ERR),
    ],
)
def test_user_memory_that_cannot_be(driver, users, refused, wrong, status):
    fields = umem_fields(driver.memory.pages(2 * PAGE))
    fields["umem"] |= wrong
    refused(status, Op.CREATE_UMEM, uid=users[0], **fields)


def test_user_memory_without_its_pages(driver, users, refused):
    page = driver.memory.pages(PAGE)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_UMEM, uid=users[0], **umem_fields(page, rights=0))
    refused(Status.BAD_PARAM_ERR, Op.CREATE_UMEM, uid=users[0], **umem_fields([1 << 52]))


def test_user_memory_of_somebody_else(driver, users, memory_of, refused):
    number, _ = memory_of(users[0])
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_UMEM, uid=users[1], umem_id=number)
