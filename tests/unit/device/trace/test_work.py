"""Work requests in a trace."""

from emu.device.objects.queues.send_queue import Wqe
from emu.device.trace import decode, work
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import CTRL


def test_few_translations_of_a_long_request_are_decoded(monkeypatch):
    decoded = []
    monkeypatch.setattr(decode, "fields", lambda view: decoded.append(view) or {"key": 1})
    wqe = Wqe().parse(CTRL.pack(Opcode.UMR, 63, 0x80, 0x100) + b"\xff" * 1008)
    shown = work.request(wqe, QpType.RC, AccessMode.KLMS)
    assert shown["list"]["count"] == 55
    assert len(decoded) <= 6
