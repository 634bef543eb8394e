"""Device memory: handed out in pages of BAR 0, reached by loads, stores and memory keys."""

import pytest

from emu.device.function.doorbells import UAR_SEND
from emu.device.models import MODELS
from emu.device.objects.memory.memic import AREA_BYTES, MEMIC_BYTES, MEMIC_PAGE
from emu.driver.verbs.channels import Channel
from layouts.enums.caps import CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.memory.memic import device_mem_cap

BAR = MODELS["connectx6"].bar0_size
FIRST = BAR - MEMIC_BYTES
INCREMENT, TEST_AND_SET = 0, 1
ALL_RIGHTS = {"lr": 1, "lw": 1, "rr": 1, "rw": 1, "a": 1}


def alloc_fields(page=0, pages=1, size=None, alignment=0):
    return {
        "range_start_addr": FIRST + page * MEMIC_PAGE, "range_size": pages * MEMIC_PAGE,
        "memic_size": pages * MEMIC_PAGE if size is None else size,
        "log_memic_addr_alignment": alignment,
    }  # fmt: skip


def alloc(driver, **how):
    return driver.must(Op.ALLOC_MEMIC, **alloc_fields(**how)).memic_start_addr


def key_fields(pdn, start, length, **context):
    mode = {"access_mode_1_0": AccessMode.MEMIC & 3, "access_mode_4_2": AccessMode.MEMIC >> 2}
    return {
        "memory_key_mkey_entry": {
            "pd": pdn, "qpn": 0xFFFFFF, "start_addr": start, "len": length,
        } | mode | ALL_RIGHTS | context
    }  # fmt: skip


def operation(driver, start, number):
    answer = driver.must(Op.MODIFY_MEMIC, memic_start_addr=start, memic_operation_type=number)
    return answer.memic_operation_addr


def test_the_group_says_where_it_is(driver):
    page = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.DEV_MEM << 1 | 1).raw[0x10:]
    caps = device_mem_cap.view(bytearray(page[: device_mem_cap.size]))
    assert caps.memic
    assert caps.memic_bar_start_addr == FIRST
    assert caps.memic_bar_size == caps.max_memic_size == MEMIC_BYTES


def test_stores_and_loads(driver, function):
    start = alloc(driver, page=3, pages=2)
    assert start == FIRST + 3 * MEMIC_PAGE
    function.bar_write(0, start + 8, b"12345678")
    function.bar_write(0, start + MEMIC_PAGE * 2 - 4, b"last")
    assert function.bar_read(0, start + 8, 8) == b"12345678"
    assert function.bar_read(0, start + MEMIC_PAGE * 2 - 4, 4) == b"last"


def test_nothing_is_kept_where_nobody_has_memory(driver, function):
    start = alloc(driver, page=1)
    for offset in (
        start - 4,
        start + MEMIC_PAGE,
        start + MEMIC_PAGE - 4,
        BAR - 8,
        BAR - AREA_BYTES,
    ):
        function.bar_write(0, offset, b"12345678")
        assert function.bar_read(0, offset, 8) == bytes(8)


def test_the_next_owner_finds_zeros(driver, function):
    start = alloc(driver)
    function.bar_write(0, start, b"secret!!")
    driver.must(Op.DEALLOC_MEMIC, memic_start_addr=start, memic_size=MEMIC_PAGE)
    assert function.bar_read(0, start, 8) == bytes(8)
    assert alloc(driver) == start
    assert function.bar_read(0, start, 8) == bytes(8)


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ({"page": 2}, Status.NO_RES_ERR),
        ({"page": 1, "pages": 2}, Status.NO_RES_ERR),
        ({"page": -1}, Status.NO_RES_ERR),
        ({"page": 31, "pages": 2}, Status.NO_RES_ERR),
        ({"pages": 0}, Status.BAD_PARAM_ERR),
        ({"size": 0}, Status.BAD_PARAM_ERR),
        ({"size": MEMIC_PAGE + 1}, Status.BAD_PARAM_ERR),
        ({"page": 0.5}, Status.BAD_PARAM_ERR),
        ({"pages": 1.5}, Status.BAD_PARAM_ERR),
        ({"alignment": 7}, Status.LIM_ERR),
    ],
)
def test_what_is_not_handed_out(driver, refused, how, status):
    alloc(driver, page=2)
    fields = {name: int(value) for name, value in alloc_fields(**how).items()}
    refused(status, Op.ALLOC_MEMIC, **fields)


@pytest.mark.parametrize("offset", [-MEMIC_PAGE, 4, MEMIC_PAGE, MEMIC_BYTES, -FIRST])
def test_what_cannot_be_given_back(driver, refused, offset):
    start = alloc(driver, page=1, pages=2)
    refused(
        Status.BAD_RES_ERR, Op.DEALLOC_MEMIC, memic_start_addr=start + offset, memic_size=MEMIC_PAGE
    )
    refused(Status.BAD_RES_ERR, Op.MODIFY_MEMIC, memic_start_addr=start + offset)


def test_all_of_it_and_no_more(driver, refused):
    alloc(driver, pages=MEMIC_BYTES // MEMIC_PAGE)
    refused(Status.NO_RES_ERR, Op.ALLOC_MEMIC, **alloc_fields(page=5))


def test_atomic_operations(driver, function):
    start = alloc(driver, page=2)
    add, take = (operation(driver, start, number) for number in (INCREMENT, TEST_AND_SET))
    for _ in range(2):
        function.bar_write(0, add + 5, b"\x01")
    assert function.bar_read(0, take + 5, 1) == b"\x02"
    assert function.bar_read(0, take + 5, 1) == b"\x01"
    function.bar_write(0, start + 5, b"\xff")
    function.bar_write(0, add + 5, b"\x03")
    assert function.bar_read(0, start, 8) == b"\0\0\0\0\0\x02\0\0"


def test_operations_work_only_where_they_were_asked_for(driver, function, refused):
    start = alloc(driver)
    add = operation(driver, start, INCREMENT)
    function.bar_read(0, add + MEMIC_BYTES, 1)  # a test-and-set
    function.bar_write(0, add, b"\x01\x01")  # of two bytes
    assert function.bar_read(0, start, 8) == bytes(8)
    driver.must(Op.MODIFY_MEMIC, op_mod=1, memic_start_addr=start, memic_operation_type=INCREMENT)
    function.bar_write(0, add, b"\x01")
    assert function.bar_read(0, start, 8) == bytes(8)
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_MEMIC, memic_start_addr=start, memic_operation_type=2)
    refused(Status.BAD_PARAM_ERR, Op.MODIFY_MEMIC, op_mod=2, memic_start_addr=start)


@pytest.mark.parametrize(
    ("start", "length", "context"),
    [
        (FIRST, MEMIC_PAGE, {}),  # nobody's
        (FIRST + MEMIC_PAGE, 2 * MEMIC_PAGE, {}),
        (0, 64, {}),
        (FIRST + MEMIC_PAGE, 64, {"umr_en": 1}),
        (FIRST + MEMIC_PAGE, 64, {"free": 1}),
        (FIRST + MEMIC_PAGE, 0, {"length64": 1}),
        (FIRST + MEMIC_PAGE, 64, {"translations_octword_size": 4}),
    ],
)
def test_keys_that_are_refused(driver, refused, start, length, context):
    alloc(driver, page=1)
    pdn = driver.alloc_pd()
    refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, **key_fields(pdn, start, length, **context))


def test_memory_with_a_key_stays(driver, refused):
    start = alloc(driver)
    index = driver.must(
        Op.CREATE_MKEY, **key_fields(driver.alloc_pd(), start, MEMIC_PAGE)
    ).mkey_index
    fields = {"memic_start_addr": start, "memic_size": MEMIC_PAGE}
    refused(Status.BAD_RES_STATE_ERR, Op.DEALLOC_MEMIC, **fields)
    driver.must(Op.DESTROY_MKEY, mkey_index=index)
    driver.must(Op.DEALLOC_MEMIC, memic_start_addr=start, memic_size=MEMIC_PAGE)


def test_messages_read_and_write_it(ends):
    """Addresses count from the key's start, whatever it covers: the key is zero-based."""
    channel = Channel(QpType.RC, *ends)
    source = channel.left.region(64)
    source.write(b"from guest memory")
    driver = channel.right.driver
    start = alloc(driver, page=4)
    fields = key_fields(channel.right.pdn, start + 256, 1024)
    key = driver.must(Op.CREATE_MKEY, **fields).mkey_index << 8
    channel.write((key, 100), source.sge(0, 17))
    channel.settle()
    channel.sent()
    assert driver.bar.read(start + 356, 17) == b"from guest memory"
    driver.bar.write(start + 256, b"device memory")
    channel.read((key, 0), source.sge(17, 13))
    channel.settle()
    channel.sent()
    assert source.read(0, 30) == b"from guest memorydevice memory"
    channel.write((key, 1020), source.sge(0, 8))
    assert channel.failure() == CqeSyndrome.REMOTE_ACCESS_ERR


def post_twice(channel):
    """Two messages out of the same device memory; the stores of the second are on their way.

    So is its doorbell; its request and the doorbell record are there. Returns where both arrive.
    """
    driver = channel.left.driver
    start = alloc(driver)
    fields = key_fields(channel.left.pdn, start, MEMIC_PAGE)
    source = (8, driver.must(Op.CREATE_MKEY, **fields).mkey_index << 8, 0)
    target = channel.right.region(16)
    driver.bar.write(start, b"first...")
    channel.write((target.key, target.va), source)
    channel.write((target.key, target.va + 8), source, ring=False)
    channel.settle()
    assert target.read(0, 16) == b"first..." + bytes(8)
    driver.bar.write(start, b"...later")
    return target


def doorbell(channel, words, at=0):
    data = b"".join(word.to_bytes(4, "big") for word in words)
    driver = channel.left.driver
    driver.bar.write(driver.uar * 4096 + UAR_SEND + at, data)
    channel.settle()


def test_a_message_waits_for_its_stores(ends):
    """They come as its doorbell does, behind what is in memory: UCX sends short messages so."""
    channel = Channel(QpType.RC, *ends)
    target = post_twice(channel)
    channel.settle()
    assert target.read(8, 8) == bytes(8)
    doorbell(channel, [1 << 8 | Opcode.RDMA_WRITE, channel.sender.qpn << 8 | 3])
    assert target.read(8, 8) == b"...later"


@pytest.mark.parametrize(
    ("words", "at"),
    [
        pytest.param([1 << 8, 0], 0, id="no-length"),
        pytest.param([0xFFF0 << 8, 3], 0, id="blocks-long-past"),
        pytest.param([0], 4, id="number-alone"),
    ],
)
def test_a_doorbell_that_does_not_say_how_far(ends, words, at):
    """The doorbell record is all that counts then, as it is without device memory."""
    channel = Channel(QpType.RC, *ends)
    target = post_twice(channel)
    doorbell(channel, [*words[:-1], channel.sender.qpn << 8 | words[-1]], at)
    assert target.read(8, 8) == b"...later"


def test_without_device_memory_the_record_is_what_counts(ends):
    channel = Channel(QpType.RC, *ends)
    source, target = channel.left.region(8), channel.right.region(16)
    source.write(b"anything")
    channel.write((target.key, target.va), source.sge())
    channel.write((target.key, target.va + 8), source.sge(), ring=False)
    channel.settle()
    assert target.read(0, 16) == b"anything" * 2


@pytest.mark.parametrize("limits", [{"device_memory": 0}])
def test_a_function_without_it(driver, function, refused):
    page = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.DEV_MEM << 1 | 1).raw[0x10:]
    assert page.strip(b"\0") == b""
    refused(Status.BAD_OP_ERR, Op.ALLOC_MEMIC, **alloc_fields())
    refused(Status.BAD_PARAM_ERR, Op.CREATE_MKEY, **key_fields(driver.alloc_pd(), FIRST, 64))
    function.bar_write(0, FIRST, b"12345678")
    assert function.bar_read(0, FIRST, 8) == bytes(8)
