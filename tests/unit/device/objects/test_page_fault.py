"""The wait of a page fault: who is blocked meanwhile, and what its end does."""

from types import SimpleNamespace

import pytest

from emu.device.objects.queues.outcome import Nak, NakCode
from emu.device.objects.queues.page_fault import FaultedAccess, Page, PageFault, PageFaultType, Side

pytestmark = pytest.mark.pure("its queue pairs are fakes")

REFUSAL = Nak(NakCode.REMOTE_ACCESS_ERROR)


@pytest.fixture
def peer():
    return SimpleNamespace(held_by=None)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def fault(calls):
    def refuse(why):
        calls.append(("refuse", why))
        return REFUSAL

    access = FaultedAccess(PageFaultType.RDMA_WRITE, 64)
    return PageFault(SimpleNamespace(), Side.RESPONDER, access, Page(8, 0, 64), refuse)


def test_end_retries_and_unblocks_the_requester(fault, peer, calls):
    fault.wait(lambda response: calls.append((peer.held_by, response)), peer)
    assert peer.held_by is fault
    fault.end()
    assert calls == [(None, None)]


def test_end_with_a_reason_fails_the_access_first(fault, peer, calls):
    fault.wait(lambda response: calls.append(("retry", response)), peer)
    fault.end("no memory")
    assert calls == [("refuse", "no memory"), ("retry", REFUSAL)]


def test_end_without_a_wait_only_fails_the_access(fault, calls):
    fault.end()
    fault.end("no memory")
    assert calls == [("refuse", "no memory")]


def test_requester_that_stops_is_unblocked_and_not_retried(fault, peer, calls):
    fault.wait(calls.append, peer)
    fault.release(peer)
    fault.end()
    assert peer.held_by is None
    assert not calls


def test_requester_that_stops_while_the_access_fails_is_not_retried(fault, peer, calls):
    fault.refuse = lambda _: fault.release(peer)
    fault.wait(calls.append, peer)
    fault.end("no memory")
    assert not calls


def test_later_wait_replaces_the_retry(fault, calls):
    fault.wait(lambda _: calls.append("first"))
    fault.wait(lambda _: calls.append("second"))
    fault.end()
    assert calls == ["second"]
