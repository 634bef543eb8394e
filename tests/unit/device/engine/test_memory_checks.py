"""Checks of memory accesses and page faults that traffic seldom comes to, by what each is given."""

from types import SimpleNamespace

import pytest
from helpers.pure import pure_only

from emu.device.engine.events import eq
from emu.device.engine.mr import access, cache, page_faults, special_keys
from emu.device.engine.mr.access_error import (
    MAX_BYTES,
    SEGMENT_BYTES,
    TOO_FRAGMENTED,
    AccessError,
    Violation,
)
from emu.device.engine.mr.block_signature import BSF_OCTWORDS
from emu.device.engine.mr.crypto import CipherStream
from emu.device.engine.wqe import key_options
from emu.device.objects.memory.rights import LOCAL_READ
from emu.device.rounds.budget import Budget
from emu.device.rounds.sizes import EVENTS_PER_POLL
from layouts.enums.eqe import EventType
from layouts.enums.mkey import AccessMode

pure_only("it hands fakes to the steps of the engine")


def some(**values):
    return SimpleNamespace(**values)


class TestRanges:
    @pytest.mark.parametrize(
        ("length", "step_limit", "is_cut"),
        [(8, None, False), (8, 3, True), (SEGMENT_BYTES + 1, None, True)],
    )
    def test_a_key_of_many_ranges(self, monkeypatch, length, step_limit, is_cut):
        """Only who can ask for less is told to."""
        monkeypatch.setattr(access, "klm_ranges", lambda *span: [(8, 0, 1)] * 4)
        monkeypatch.setattr(access, "access", lambda *arguments: [memoryview(b"1")] * 2000)
        hca = some(budget=Budget(), caps=some(general=some(max_indirection=4)))
        key = some(key=8, mode=AccessMode.KLMS, uid=0, pd=None)
        with pytest.raises(AccessError) as why:
            access.indirect(hca, key, (0, length, LOCAL_READ), 0, step_limit)
        assert (why.value.violation is TOO_FRAGMENTED) == is_cut

    def test_one_long_segment(self):
        memory = some(segments=lambda iova, length, *, writable: [range(length)])
        key = some(
            variant=8, views={}, open_to=None, rights=LOCAL_READ, start=0, end=2 * MAX_BYTES,
            signature=None, mode=AccessMode.PA,
        )  # fmt: skip
        hca = some(mkeys=some(by_handle={0: key}), memory=memory, has_signatures=False)
        span = 0, MAX_BYTES + 1, LOCAL_READ
        found, missing = access.segment_views(hca, None, 5, [(MAX_BYTES, 8, 0)], span)
        assert ([*map(len, found)], missing) == ([MAX_BYTES], 1)
        with pytest.raises(AccessError, match="too_fragmented") as why:
            access.segment_views(hca, None, 5, [(MAX_BYTES + 1, 8, 0)], span)
        assert why.value.limit == MAX_BYTES

    def test_more_pages_than_all_keys_may_keep(self, monkeypatch):
        monkeypatch.setattr(cache, "MAX_KEPT_VIEWS", 3)
        views = [memoryview(b"page")] * 4
        for count in (3, 4):
            keys = set()
            there = some(keys=keys, count=0, forget=lambda: None)
            key = some(handle=1, scattered={})
            cache._list(there, key, 0, False, views[:count])
            assert (bool(key.scattered), bool(keys)) == (count == 3, count == 3)

    def test_cells_behind_the_end_of_encrypted_memory(self):
        def cell(at):
            return at // 16 * 16, at // 16 * 16 + 16

        crypto = some(cell=cell, encrypts=True, apply=lambda start, data, encrypts: data)
        below = some(outgoing=lambda at, length: bytes(length))
        stream = CipherStream(below, crypto, 40, ValueError, reads_back=True)
        assert stream.outgoing(16, 16) == bytes(16)
        with pytest.raises(ValueError, match="32"):
            stream.outgoing(32, 8)

    def test_the_reserved_key_on_a_queue_that_is_gone(self):
        hca = some(qps={}, sqs={}, rqs={}, caps=some(general=some(null_mkey=0, dump_fill_mkey=0)))
        with pytest.raises(AccessError) as why:
            special_keys.views(hca, 5, special_keys.RESERVED_LKEY, (0, 8, LOCAL_READ), 0)
        assert why.value.violation is Violation.DOMAIN


@pytest.mark.parametrize("octwords", [BSF_OCTWORDS + 1, 3 * BSF_OCTWORDS, 5 * BSF_OCTWORDS])
def test_signatures_that_are_no_one_or_two(octwords):
    """The key has room for some of them."""
    key = some(signature=None, mode=AccessMode.KLMS, bsf_octwords=4 * BSF_OCTWORDS)
    wqe = some(ds=255, buf=bytes(255 * 16))
    with pytest.raises(key_options.BindError, match=f"BSF of {octwords} octwords"):
        key_options.read(None, key, wqe, True, 0, octwords)


class TestPageFaults:
    """Events that wait, and faults that end with their event queue."""

    @pytest.fixture
    def closed(self, monkeypatch):
        """Tokens of the faults that have been refused."""
        found = []

        def close(events, fault, *, refused):
            assert refused
            found.append(fault.token)
            fault.is_open = False
            fault.table.unreported.pop(fault.token, None)

        monkeypatch.setattr(page_faults, "close", close)
        return found

    @pytest.fixture
    def posted(self, monkeypatch):
        found = []
        monkeypatch.setattr(eq, "post", lambda events, eq, kind, sub, data: found.append(data))
        return found

    @staticmethod
    def hca(count, eq):
        faults = [
            some(token=token, is_open=True, event=lambda token=token: (0, token))
            for token in range(count)
        ]
        table = some(timer=None, unreported={one.token: one for one in faults}, open=lambda: faults)
        for one in faults:
            one.table = table
        subscribers = {} if eq is None else {EventType.PAGE_FAULT: eq}
        clock = some(call_later=lambda delay, call: delay)
        return some(page_faults=table, events=some(subscribers=subscribers, clock=clock))

    def test_events_of_one_poll(self, posted):
        hca = self.hca(EVENTS_PER_POLL + 1, some(pi=0, ci=0, entries=1 << 20))
        page_faults._post_events(hca.events, hca.page_faults)
        assert posted == [*range(EVENTS_PER_POLL)]
        assert hca.page_faults.timer == 0

    def test_events_without_a_queue(self, closed, posted):
        hca = self.hca(3, None)
        page_faults._post_events(hca.events, hca.page_faults)
        assert (closed, posted) == ([0, 1, 2], [])

    def test_faults_that_end_with_their_queue(self, closed):
        hca = self.hca(3, None)
        hca.page_faults.open()[1].is_open = False
        assert [*page_faults.refuse_all(hca.events, hca.page_faults)] == []
        assert closed == [0, 2]

    def test_another_queue_takes_the_faults_over(self, closed):
        hca = self.hca(3, some())
        assert [*page_faults.refuse_all(hca.events, hca.page_faults)] == []
        assert closed == []
