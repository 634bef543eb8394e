"""Firmware pages: what the device asks for, takes and gives back (core/pagealloc.c)."""

import pytest

from emu.device.state.hca import HcaOptions
from emu.driver.command.words import pack64
from firmware_cmds.function import pages
from layouts.enums.cmd import Op, Status
from layouts.enums.hca import BootPages, PageOp


@pytest.fixture
def options():
    """A device that wants pages, three before and three after INIT_HCA."""
    return HcaOptions(guid=0x10, boot_pages=3)


def give(driver, pages, count=None):
    return driver.command(
        Op.MANAGE_PAGES,
        op_mod=PageOp.GIVE,
        input_num_entries=len(pages) if count is None else count,
        extra=pack64(pages),
    )


def test_probe_gives_what_was_asked_for_and_unload_gets_it_back(driver, function):
    assert len(function.hca.fwpages) == 6
    driver.must(Op.DEALLOC_UAR, uar=driver.uar)
    driver.must(Op.TEARDOWN_HCA)
    assert driver.take_pages() == 6
    driver.must(Op.DISABLE_HCA)


def test_same_pages_come_back(driver):
    pages = [driver.memory.alloc(4096) for _ in range(5)]
    assert give(driver, pages).status == Status.OK
    answer = driver.must(Op.MANAGE_PAGES, op_mod=PageOp.TAKE, input_num_entries=5, out_extra=8 * 5)
    assert answer.output_num_entries == 5
    assert sorted(answer.pas) == sorted(pages)


def test_take_is_bounded_by_the_request_and_by_the_room(driver):
    take = {"op_mod": PageOp.TAKE}
    answer = driver.must(Op.MANAGE_PAGES, **take, input_num_entries=2, out_extra=800)
    assert answer.output_num_entries == 2
    answer = driver.must(Op.MANAGE_PAGES, **take, input_num_entries=100, out_extra=8 * 3)
    assert answer.output_num_entries == 3
    answer = driver.must(Op.MANAGE_PAGES, **take, input_num_entries=100, out_extra=0)
    assert answer.output_num_entries == 0
    assert driver.take_pages() == 1


def test_a_page_taken_back_can_be_given_again(driver):
    page = driver.memory.alloc(4096)
    assert give(driver, [page]).status == Status.OK
    assert driver.take_pages() == 7
    assert give(driver, [page]).status == Status.OK


@pytest.mark.parametrize(
    ("moment", "count"), [(BootPages.BOOT, 3), (BootPages.INIT, 3), (BootPages.REGULAR, 0)]
)
def test_wanted_by_moment(driver, moment, count):
    assert driver.must(Op.QUERY_PAGES, op_mod=moment).num_pages == count


@pytest.mark.parametrize("op", [Op.QUERY_PAGES, Op.MANAGE_PAGES])
def test_unknown_op_mod(refused, op):
    refused(Status.BAD_PARAM_ERR, op, op_mod=9)


@pytest.mark.parametrize("op", [Op.QUERY_PAGES, Op.MANAGE_PAGES])
def test_pages_of_another_function(refused, op):
    refused(Status.BAD_PARAM_ERR, op, op_mod=1, function_id=1)


def test_driver_that_has_none_to_give(driver):
    driver.must(Op.MANAGE_PAGES, op_mod=PageOp.CANT_GIVE)


def pages_of(driver, kind):
    """Lists that must not be taken, each with one page in it that would be fine alone."""
    good = driver.memory.alloc(4096)
    held = driver.memory.alloc(4096)
    assert give(driver, [held]).status == Status.OK
    return {
        "the same twice": [good, good],
        "given before": [good, held],
        "not guest memory": [good, 0x7000_0000_0000],
        "end of the address space": [good, (1 << 64) - 4096],
        "not aligned": [good, driver.memory.alloc(4096) + 64],
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "the same twice",
        "given before",
        "not guest memory",
        "end of the address space",
        "not aligned",
    ],
)
def test_refused_list_gives_no_page_at_all(driver, refused, kind):
    pages = pages_of(driver, kind)
    refused(
        Status.BAD_PARAM_ERR, Op.MANAGE_PAGES, op_mod=PageOp.GIVE,
        input_num_entries=len(pages), extra=pack64(pages),
    )  # fmt: skip


def test_no_more_pages_than_firmware_takes(driver, function, refused, monkeypatch):
    held = len(function.hca.fwpages)
    monkeypatch.setattr(pages, "MAX_PAGES", held + 1)
    two = driver.memory.pages(2 * 4096)
    fields = {"op_mod": PageOp.GIVE, "input_num_entries": 2, "extra": pack64(two)}
    refused(Status.LIM_ERR, Op.MANAGE_PAGES, **fields)
    driver.must(Op.MANAGE_PAGES, **fields | {"input_num_entries": 1, "extra": pack64(two[:1])})


@pytest.mark.parametrize("count", [2, 0xFFFFFFFF])
def test_fewer_pages_than_announced(driver, refused, count):
    page = pack64([driver.memory.alloc(4096)])
    refused(
        Status.BAD_INP_LEN_ERR, Op.MANAGE_PAGES, op_mod=PageOp.GIVE,
        input_num_entries=count, extra=page,
    )  # fmt: skip


def test_pages_behind_the_announced_ones_are_not_looked_at(driver, function):
    given = len(function.hca.fwpages)
    assert give(driver, [driver.memory.alloc(4096), 0xDEAD], count=1).status == Status.OK
    assert len(function.hca.fwpages) == given + 1
