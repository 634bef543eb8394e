"""QP0 of a function, as a subnet manager uses it."""

from __future__ import annotations

from emu.driver.verbs.gsi import Gsi
from layouts.enums.qp import QpType
from layouts.wire.mads import Method, MgmtClass, smp

PERMISSIVE = 0xFFFF


class Smi(Gsi):
    """A node's QP0."""

    def __init__(self, node):
        super().__init__(node, QpType.QP0)

    def request(self, attr, *hops, method=Method.GET, attr_mod=0, data=b"", mkey=0):
        """An SMP; directed when it has a route, from the port that it leaves by on (smi.c)."""
        hdr = self.header(MgmtClass.SUBN_LID_ROUTED, 1, method, attr)
        mad = smp.new(**hdr, attr_mod=attr_mod, data=data.ljust(64, b"\0"), mkey=mkey)
        if hops:
            mad.assign(
                {
                    "mgmt_class": MgmtClass.SUBN_DIRECTED_ROUTE, "hop_cnt": len(hops),
                    "hop_ptr": 1, "dr_slid": PERMISSIVE, "dr_dlid": PERMISSIVE,
                    "initial_path": bytes((0, *hops)).ljust(64, b"\0"),
                }
            )  # fmt: skip
        return mad

    def post(self, mad, lid):
        self.send(mad, lid, dqp_dct=0, key=0)

    def smps(self):
        return [smp.view(bytearray(data)) for _, data in self.take()]

    def ask(self, attr, *hops, lid=PERMISSIVE, **fields):
        mad = self.request(attr, *hops, **fields)
        self.post(mad, lid)
        (answer,) = [found for found in self.smps() if found.method != Method.TRAP]
        assert (answer.tid, answer.method) == (mad.tid, 0x81)
        return answer
