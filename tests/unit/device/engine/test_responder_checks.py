"""Steps of a responder that traffic seldom comes to, by what each is given."""

from types import SimpleNamespace

import pytest
from helpers.pure import pure_only

from emu.device.engine.rc import duplicates, remote
from layouts.enums.qp import QpType

pure_only("it hands fakes to the steps of the engine")


def some(**values):
    return SimpleNamespace(**values)


@pytest.mark.parametrize(
    ("receive", "st", "told"),
    [
        (None, QpType.RC, "event"),
        (some(wqe=None), QpType.RC, "event"),
        (some(wqe="request"), QpType.RC, "completion"),
        (some(wqe="request"), QpType.UC, "event"),
    ],
    ids=["no request", "its queue is gone", "a request", "unreliable"],
)
def test_how_a_forbidden_access_is_told(monkeypatch, receive, st, told):
    monkeypatch.setattr(remote, "access_violation", lambda *arguments: "event")
    monkeypatch.setattr(remote, "fail_receive_and_nak", lambda *arguments: "completion")
    assert remote.refuse_access(some(), some(st=st), receive, "why") == told


def test_a_duplicate_read_that_is_not_allowed_any_more(monkeypatch):
    monkeypatch.setattr(duplicates, "check_access", lambda *arguments: None)
    hca = some(srqs={}, has_signatures=False)
    message = some(va=0, length=8, rkey=8, srqn=5)
    qp = some(rre=1, st=QpType.RC, pd=None, handle=5, xrcd=None)
    assert duplicates.may_read_again(hca, qp, message)
    qp.rre = 0
    assert not duplicates.may_read_again(hca, qp, message)
    qp.rre, qp.st = 1, QpType.XRC
    assert not duplicates.may_read_again(hca, qp, message)
