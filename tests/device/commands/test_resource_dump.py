"""RESOURCE_DUMP: what it shows of each kind of object, and what it refuses."""

from dataclasses import replace

import pytest
from helpers.device.dump_kinds import BY_NAME
from helpers.device.rounds import Costs

from emu.device.rounds.costs import LOG_EXAMINED_PER_STEP
from emu.driver.command.answer import DriverError
from emu.driver.command.resource_dump import (
    HEADER,
    RESOURCE,
    access_once,
    in_memory,
    inline,
    payload,
    segments,
)
from firmware_cmds.regs import dump_sources, resource_dump
from firmware_cmds.regs.dump_sources import SOURCES, Contents
from layouts.enums.caps import CapMode, CapType
from layouts.enums.cmd import Op, Status
from layouts.enums.regs import RegId
from layouts.memory import mkey
from layouts.objects import cq, qp
from layouts.regs import resource_dump as layout
from layouts.regs.resource_dump import INLINE_BYTES, SegmentType


def test_the_menu_names_every_segment(driver):
    """core/diag/rsc_dump.c: the menu follows information and request."""
    (_, _), (_, _), (kind, menu), _ = segments(inline(driver, SegmentType.MENU))
    assert kind == SegmentType.MENU
    record = layout.resource_dump_menu_record
    rows = [record.view(bytearray(menu[at : at + record.size])) for at in range(4, len(menu), 52)]
    names = {bytes(row.segment_name).rstrip(b"\0").decode(): row.segment_type for row in rows}
    assert names == BY_NAME
    assert {"PRM_QUERY_QP", "PRM_QUERY_CQ", "PRM_QUERY_MKEY", "FULL_QPC", "SX_SLICE_ALL"} <= set(
        names
    )


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_dump_without_its_frame_is_a_driver_error(driver, qps, count):
    """Of the segments INFO, COMMAND, ..., TERMINATE only the first ``count``."""
    data = inline(driver, BY_NAME["FULL_QPC"], qps[0].qpn)
    size = sum(HEADER.size + len(part) for _, part in segments(data)[:count])
    for cut in (data[:size], data[:size] + b"\0"):
        with pytest.raises(DriverError):
            payload(cut)


def test_a_queue_pair_is_as_query_qp_says(driver, qps):
    (sender, _) = qps
    answer = driver.must(Op.QUERY_QP, qpn=sender.qpn)
    data = payload(inline(driver, BY_NAME["PRM_QUERY_QP"], sender.qpn))
    assert bytes(qp.query_qp_out.view(bytearray(data)).qpc) == bytes(answer.qpc)
    assert payload(inline(driver, BY_NAME["FULL_QPC"], sender.qpn)) == bytes(answer.qpc)


def test_memory_takes_it_as_the_register_does(driver, node, qps):
    region = node.region(4096)
    for kind, index in (("PRM_QUERY_CQ", qps[0].cq.cqn), ("PRM_QUERY_MKEY", region.key >> 8)):
        assert in_memory(driver, region, BY_NAME[kind], index) == inline(
            driver, BY_NAME[kind], index
        )
    found = cq.query_cq_out.view(
        bytearray(payload(inline(driver, BY_NAME["FULL_CQC"], qps[0].cq.cqn)))
    )
    assert bytes(found.cq_context) == bytes(driver.must(Op.QUERY_CQ, cqn=qps[0].cq.cqn).cq_context)
    key = mkey.query_mkey_out.view(
        bytearray(payload(inline(driver, BY_NAME["PRM_QUERY_MKEY"], region.key >> 8)))
    )
    assert key.memory_key_mkey_entry.len == 4096


def test_queues_show_what_is_in_them(driver, node, qps):
    sender, receiver = qps
    source = node.region(64)
    index = sender.send(source.sge(), ring=False)
    sent = in_memory(driver, node.region(4096), BY_NAME["SND_BUFF"], sender.qpn, 4096)
    assert payload(sent)[:4] == (index << 8 | 0x0A).to_bytes(4, "big")
    receiver.post_recv(source.sge())
    received = payload(inline(driver, BY_NAME["RCV_BUFF"], receiver.qpn))
    assert received[:16] == (64).to_bytes(4, "big") + source.key.to_bytes(
        4, "big"
    ) + source.va.to_bytes(8, "big")
    progress = payload(inline(driver, BY_NAME["SX_SLICE_ALL"]))
    assert sender.qpn.to_bytes(4, "big") + bytes(4) in [
        progress[at : at + 8] for at in range(0, len(progress), 8)
    ]


def test_a_long_queue_has_several_segments(driver, node):
    """length_dw ends at 256 KiB."""
    queue = node.completion_queue(13)
    data = in_memory(driver, node.region(1 << 16), BY_NAME["CQ_BUFF"], queue.cqn, 1 << 16)
    parts = [part for kind, part in segments(data) if kind == BY_NAME["CQ_BUFF"]]
    assert [RESOURCE.view(bytearray(HEADER.size) + part[:12]).index2 for part in parts] == [
        at << 17 for at in range(4)
    ]
    assert len(payload(data)) == 64 << 13


def test_an_access_may_begin_and_end_anywhere(driver, node):
    """In a segment's head, before and behind it."""
    queue, region = node.completion_queue(13), node.region(1 << 16)
    whole = in_memory(driver, region, BY_NAME["CQ_BUFF"], queue.cqn, 1 << 16)
    before = layout.resource_dump_info_segment.size + layout.resource_dump_command_segment.size
    second = before + RESOURCE.size + (1 << 17)
    for at in range(second - 24, second + 24, 4):
        for size in (4, 28, 64):
            reg = access_once(
                driver, BY_NAME["CQ_BUFF"], queue.cqn, op_mod=0, mkey=region.key,
                address=region.va, size=size, num_of_obj1=1, device_opaque=at,
            )  # fmt: skip
            assert reg.size == size
            assert region.read(0, size) == whole[at : at + size]


def test_segments_are_made_when_they_are_read():
    """Those of any memory, however long."""
    contents = resource_dump._in_segments(Contents(1 << 60, lambda at, size: bytes(size)), 1, 2)
    assert contents.read(RESOURCE.size, 64) == bytes(64)


@pytest.mark.parametrize(
    "kind", [name for name, number in BY_NAME.items() if SOURCES[number].index]
)
@pytest.mark.parametrize("index", [0x7FFF, 0xFFFFFFFF])
def test_no_such_object(driver, kind, index):
    (_, _), (_, _), (error, text), _ = segments(inline(driver, BY_NAME[kind], index))
    assert error == SegmentType.ERROR
    assert f"{index:#x}".encode() in text


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"segment_type": 0x1234, "inline_dump": 1}, id="unknown-segment"),
        pytest.param({"size": 0}, id="no-room"),
        pytest.param({"size": 3}, id="less-than-a-dword"),
        pytest.param({"size": 4096, "mkey": 0x1234}, id="no-such-key"),
        pytest.param({"inline_dump": 1, "device_opaque": 1 << 40}, id="behind-the-end"),
    ],
)
def test_what_is_refused(driver, fields):
    view = layout.resource_dump.new(**{"segment_type": SegmentType.MENU} | fields)
    answer = driver.write_register(RegId.RESOURCE_DUMP, bytes(view.buf))
    assert answer.status == Status.BAD_PARAM_ERR


def test_a_key_that_may_not_be_written(driver, node):
    region = node.region(4096, lw=0)
    view = layout.resource_dump.new(
        segment_type=SegmentType.MENU, size=4096, mkey=region.key, address=region.va
    )
    assert (
        driver.write_register(RegId.RESOURCE_DUMP, bytes(view.buf)).status == Status.BAD_PARAM_ERR
    )
    assert region.read(0, 64) == bytes(64)


@pytest.mark.parametrize("limits", [{"debug": 0}])
def test_a_function_without_it(driver):
    """Virtual functions."""
    page = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.DEBUG << 1 | CapMode.CUR).raw[0x10:]
    assert page.strip(b"\0") == b""
    view = layout.resource_dump.new(segment_type=SegmentType.MENU, inline_dump=1)
    answer = driver.write_register(RegId.RESOURCE_DUMP, bytes(view.buf))
    assert answer.status == Status.BAD_PARAM_ERR
    assert len(bytes(view.inline_data)) == INLINE_BYTES


def test_queues_are_looked_up_once_for_a_dump(driver, node, qps, monkeypatch):
    """However many accesses it takes; a queue that goes meanwhile has a row all the same."""
    more = [node.queue_pair() for _ in range(200)]
    looked = []
    read = dump_sources._all_senders
    source = BY_NAME["SX_SLICE_ALL"]
    listed = dump_sources._listed(
        "SX_SLICE_ALL", lambda hca: looked.append(1) or read(hca), dump_sources._sent_so_far
    )
    monkeypatch.setitem(SOURCES, source, replace(SOURCES[source], read=listed))
    region = node.region(4096)
    whole = in_memory(driver, region, source, room=4096)
    assert looked == [1]
    assert in_memory(driver, region, source, room=64) == whole
    assert looked == [1, 1]
    first = access_once(
        driver, source, op_mod=0, mkey=region.key, address=region.va, size=64, num_of_obj1=1
    )
    more[-1].destroy()
    access_once(
        driver, source, op_mod=0, mkey=region.key, address=region.va, size=64, num_of_obj1=1,
        device_opaque=first.device_opaque,
    )  # fmt: skip
    assert looked == [1, 1, 1]
    rest = in_memory(driver, region, source, room=64)
    assert looked == [1, 1, 1, 1]
    assert len(rest) == len(whole) - 8
    assert not node.hca.dumped


@pytest.mark.hostile
@pytest.mark.unobserved("the steps of rounds are counted")
def test_a_list_of_queues_costs_more_than_its_command(driver, node):
    """Also where a driver begins a dump again and again, and reads no more of it."""
    costs, most = Costs(node), []
    region = node.region(1 << 13)
    for _ in range(2):
        costs.most()
        for space in (4, region.size):
            access_once(
                driver, BY_NAME["SX_SLICE_ALL"], op_mod=0, mkey=region.key, address=region.va,
                size=space, num_of_obj1=1,
            )  # fmt: skip
            most.append(costs.most())
        for _ in range(128):
            node.queue_pair()
    listing, rows = (after - before for before, after in zip(most[:2], most[2:], strict=True))
    assert listing >= 128 >> LOG_EXAMINED_PER_STEP
    assert rows >= listing + (128 >> LOG_EXAMINED_PER_STEP)
