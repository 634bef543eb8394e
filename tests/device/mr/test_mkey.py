"""Memory keys and signature values: what CREATE_MKEY takes, keeps and refuses (hw/mr.c)."""

import pytest
from helpers.device.refusals import missing

from emu.device.rounds.portions import finish
from emu.driver.command.words import pack64
from emu.server.service import views
from firmware_cmds.memory.mkey import MAX_KSM_ENTRIES, MAX_MTT_ENTRIES
from layouts.enums.cmd import Op, Status
from layouts.enums.mkey import AccessMode

MTT = {"access_mode_1_0": AccessMode.MTT, "length64": 0}


@pytest.fixture
def pd(driver):
    return driver.alloc_pd()


def mtt_fields(pdn, pages, *, room=None, **context):
    """What CREATE_MKEY takes for a list of pages; ``room`` in octwords of two entries."""
    octwords = -(-len(pages) // 2)
    return {
        "memory_key_mkey_entry": {
            "pd": pdn, "qpn": 0xFFFFFF, "len": 4096 * len(pages), "log_page_size": 12,
            "translations_octword_size": octwords if room is None else room,
        } | MTT | context,
        "translations_octword_actual_size": octwords,
        "extra": pack64(pages + [0] * (len(pages) % 2)),
    }  # fmt: skip


def test_key_over_everything(driver, pd):
    """The per-PD DMA key: physical access to the whole address space."""
    index = driver.create_mkey(pd, mkey_7_0=0x5A)
    context = driver.must(Op.QUERY_MKEY, mkey_index=index).memory_key_mkey_entry
    assert (context.pd, context.length64, context.mkey_7_0) == (pd, 1, 0x5A)


def test_index_stays_clear_of_the_scatter_lists_end_mark(driver, pd):
    """0x100 as a key (index 1) terminates a receive's scatter list."""
    assert driver.create_mkey(pd) >= 0x100


@pytest.mark.parametrize("count", [1, 2, 63, 64, 500])
def test_pages_come_back_as_given(driver, pd, count):
    pages = [0x1_0000_0000 + 4096 * page for page in range(count)]
    index = driver.must(Op.CREATE_MKEY, **mtt_fields(pd, pages)).mkey_index
    answer = driver.must(Op.QUERY_MKEY, mkey_index=index, out_extra=8 * count)
    listed = answer.raw[0x110 : 0x110 + 8 * count]
    assert listed == pack64(pages)


def test_query_shows_as_many_pages_as_there_is_room_for(driver, pd):
    index = driver.must(
        Op.CREATE_MKEY, **mtt_fields(pd, [0x1000 * n for n in range(64)])
    ).mkey_index
    answer = driver.must(Op.QUERY_MKEY, mkey_index=index)
    assert answer.raw[0x110:] == pack64([0, 0x1000, 0x2000, 0x3000])


def test_free_key_gets_its_pages_later(driver, pd):
    """The driver makes a key with room and no list, to be filled by UMR."""
    fields = mtt_fields(pd, [], room=32, free=1, umr_en=1)
    index = driver.must(Op.CREATE_MKEY, **fields).mkey_index
    context = driver.must(Op.QUERY_MKEY, mkey_index=index).memory_key_mkey_entry
    assert (context.free, context.umr_en, context.translations_octword_size) == (1, 1, 32)


def test_a_free_key_is_not_counted_as_in_use(driver, function, pd):
    """Drivers keep such keys for later: who looks for leaks must not see them."""

    def count():
        return finish(views.census([function, function]))["mkey"]

    before = count()
    driver.must(Op.CREATE_MKEY, **mtt_fields(pd, [], room=32, free=1, umr_en=1))
    assert count() == before
    driver.must(Op.CREATE_MKEY, **mtt_fields(pd, [0x1000]))
    assert count() == before + 2  # one in each of two functions


@pytest.mark.parametrize("mode", [AccessMode.KLMS, AccessMode.KSM])
def test_key_over_other_keys(driver, pd, mode):
    entries = bytes(range(32))
    index = driver.must(
        Op.CREATE_MKEY,
        memory_key_mkey_entry={
            "pd": pd, "access_mode_1_0": mode, "translations_octword_size": 2, "len": 100,
            "qpn": 0xFFFFFF,
        },
        translations_octword_actual_size=2,
        extra=entries,
    ).mkey_index  # fmt: skip
    assert driver.must(Op.QUERY_MKEY, mkey_index=index).raw[0x110:] == entries


def test_destroyed_key_is_gone(driver, pd, refused):
    index = driver.create_mkey(pd)
    driver.must(Op.DESTROY_MKEY, mkey_index=index)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_MKEY, mkey_index=index)
    refused(Status.BAD_RES_ERR, Op.QUERY_MKEY, mkey_index=index)


@pytest.mark.parametrize("index", [0, 1, 2, 0xFF, 0xFFFFFF])
@pytest.mark.parametrize("op", [Op.DESTROY_MKEY, Op.QUERY_MKEY])
def test_index_that_never_was(refused, op, index):
    refused(missing(op), op, mkey_index=index)


@pytest.mark.parametrize(
    ("context", "status"),
    [
        ({"pd": 0}, Status.BAD_RES_ERR),
        ({"pd": 0x77}, Status.BAD_RES_ERR),
        ({"access_mode_4_2": 1, "access_mode_1_0": 0}, Status.BAD_PARAM_ERR),
        ({"access_mode_4_2": 1, "access_mode_1_0": 1}, Status.BAD_PARAM_ERR),
        ({"access_mode_4_2": 7, "access_mode_1_0": 3}, Status.BAD_PARAM_ERR),
        ({"start_addr": 2, "len": (1 << 64) - 1}, Status.BAD_PARAM_ERR),
        ({"translations_octword_size": 1}, Status.BAD_PARAM_ERR),
        ({"log_page_size": 11, "len": 1}, Status.BAD_PARAM_ERR),
        ({"log_page_size": 0, "length64": 1, "len": 0}, Status.BAD_PARAM_ERR),
        ({"log_page_size": 32, "len": 1}, Status.BAD_PARAM_ERR),
        ({"log_page_size": 40, "len": 1}, Status.BAD_PARAM_ERR),
        ({"qpn": 0}, Status.BAD_RES_ERR),
        ({"qpn": 0x123456}, Status.BAD_RES_ERR),
        ({"ma_translation_mode": 1}, Status.BAD_PARAM_ERR),
        ({"rw": 1, "lw": 0}, Status.BAD_PARAM_ERR),
        ({"a": 1, "lw": 0}, Status.BAD_PARAM_ERR),
        ({"rw": 1, "lw": 0, "free": 1}, Status.BAD_PARAM_ERR),
    ],
    ids=[
        "no pd", "dead pd", "sw icm", "memic", "unknown mode", "wraps", "short room", "small pages",
        "pages of a byte", "large pages", "pages of a TiB", "no QP", "dead QP", "ATS",
        "remote write alone", "atomic alone", "remote write alone, free",
    ],
)  # fmt: skip
def test_context_that_cannot_be(pd, refused, context, status):
    fields = mtt_fields(pd, [0x1000, 0x2000, 0x3000, 0x4000], **context)
    refused(status, Op.CREATE_MKEY, **fields)


@pytest.mark.parametrize(
    "context",
    [
        {"free": 1, "umr_en": 1, "qpn": 0, "log_page_size": 12, "lr": 0, "lw": 0},
        {"log_page_size": 61, "length64": 1, "len": 0, "lw": 1, "rw": 1, "rr": 1, "a": 1},
        {"log_page_size": 31, "len": 1},
        {"rr": 1, "lw": 0},
        {"lw": 1, "rw": 1, "rr": 1, "a": 1},
        {"relaxed_ordering_write": 1, "relaxed_ordering_read": 1},
    ],
    ids=[
        "the driver's cache",
        "an implicit region's null key",
        "largest pages",
        "read only",
        "all",
        "any order",
    ],
)
def test_context_as_drivers_have_it(driver, pd, context):
    """mr.c: set_cache_mkc; odp.c: alloc_implicit_mr_null_mkey."""
    driver.must(Op.CREATE_MKEY, **mtt_fields(pd, [0x1000, 0x2000, 0x3000, 0x4000], **context))


def test_key_of_a_queue_pair(driver, pd):
    qpn = driver.create_qp(pd, driver.create_cq(driver.create_eq()))
    driver.must(Op.CREATE_MKEY, **mtt_fields(pd, [0x1000], qpn=qpn))


def test_key_up_to_the_last_byte_of_the_address_space(driver, pd):
    driver.must(Op.CREATE_MKEY, **mtt_fields(pd, [0x1000], start_addr=1, len=(1 << 64) - 1))


def test_list_shorter_than_announced(pd, refused):
    fields = mtt_fields(pd, [0x1000, 0x2000]) | {"translations_octword_actual_size": 2}
    refused(Status.BAD_INP_LEN_ERR, Op.CREATE_MKEY, **fields)
    fields["translations_octword_actual_size"] = 0xFFFFFFFF
    refused(Status.BAD_INP_LEN_ERR, Op.CREATE_MKEY, **fields)


def test_key_over_everything_has_no_list(pd, refused):
    fields = mtt_fields(pd, [0x1000], access_mode_1_0=AccessMode.PA)
    refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, **fields)


@pytest.mark.parametrize("limits", [{"log_max_klm_list_size": 4}])
def test_more_keys_in_a_key_than_allowed(driver, pd, refused):
    context = {"pd": pd, "free": 1, "access_mode_1_0": AccessMode.KLMS}
    context["translations_octword_size"] = 16
    driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=context)
    context["translations_octword_size"] = 17
    refused(Status.LIM_ERR, Op.CREATE_MKEY, memory_key_mkey_entry=context)


@pytest.mark.parametrize(
    ("mode", "octwords"),
    [(AccessMode.MTT, MAX_MTT_ENTRIES // 2), (AccessMode.KSM, MAX_KSM_ENTRIES)],
)
def test_list_that_the_host_could_not_pay_for(driver, pd, refused, mode, octwords):
    """Room costs nothing until it is used, and then up to the last entry that is written."""
    context = {"pd": pd, "free": 1, "access_mode_1_0": mode}
    context["translations_octword_size"] = octwords
    driver.must(Op.CREATE_MKEY, memory_key_mkey_entry=context)
    context["translations_octword_size"] = octwords + 1
    refused(Status.LIM_ERR, Op.CREATE_MKEY, memory_key_mkey_entry=context)


@pytest.mark.parametrize("limits", [{"log_max_mkey": 9}])
def test_every_key_and_no_more(driver, pd, refused):
    made = [driver.create_mkey(pd) for _ in range(0x100)]
    assert made == list(range(0x100, 0x200))
    refused(Status.LIM_ERR, Op.CREATE_MKEY, memory_key_mkey_entry={"pd": pd, "length64": 1})
    driver.must(Op.DESTROY_MKEY, mkey_index=made[7])
    assert driver.create_mkey(pd) == made[7]


# Signature values.


def psvs(answer):
    return [answer.psv0_index, answer.psv1_index, answer.psv2_index, answer.psv3_index]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_signature_values(driver, pd, count):
    made = psvs(driver.must(Op.CREATE_PSV, pd=pd, num_psv=count))
    assert all(made[:count])
    assert not any(made[count:])
    for number in made[:count]:
        driver.must(Op.DESTROY_PSV, psvn=number)


@pytest.mark.parametrize("count", [0, 5, 15])
def test_signature_values_in_other_numbers(pd, refused, count):
    refused(Status.BAD_PARAM_ERR, Op.CREATE_PSV, pd=pd, num_psv=count)


def test_signature_value_of_no_domain(refused):
    refused(Status.BAD_RES_ERR, Op.CREATE_PSV, pd=0x77, num_psv=1)


def test_signature_value_holds_its_domain_and_dies_once(driver, pd, refused):
    number = driver.must(Op.CREATE_PSV, pd=pd, num_psv=1).psv0_index
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_PD, pd=pd)
    driver.must(Op.DESTROY_PSV, psvn=number)
    refused(Status.BAD_RES_STATE_ERR, Op.DESTROY_PSV, psvn=number)
    driver.must(Op.DEALLOC_PD, pd=pd)


@pytest.mark.parametrize("limits", [{"log_max_mkey": 3}])
def test_all_or_none_of_the_signature_values(driver, pd, refused):
    """Seven fit: after six, two more are refused without taking the last one."""
    for _ in range(3):
        driver.must(Op.CREATE_PSV, pd=pd, num_psv=2)
    refused(Status.LIM_ERR, Op.CREATE_PSV, pd=pd, num_psv=2)
    driver.must(Op.CREATE_PSV, pd=pd, num_psv=1)
    refused(Status.LIM_ERR, Op.CREATE_PSV, pd=pd, num_psv=1)


def test_no_signature_value_where_the_host_cannot_pay_for_all(node, driver, pd, refused):
    ledger = node.hca.ledger
    before = ledger.used
    driver.must(Op.CREATE_PSV, pd=pd, num_psv=1)
    cost = ledger.used - before
    before, ledger.limit = ledger.used, ledger.used + 3 * cost
    refused(Status.LIM_ERR, Op.CREATE_PSV, pd=pd, num_psv=4)
    assert ledger.used == before
    driver.must(Op.CREATE_PSV, pd=pd, num_psv=3)
    assert ledger.used == ledger.limit
