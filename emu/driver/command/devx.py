"""A process that makes its own objects: its commands carry its uid, its memory has numbers.

What mlx5_ib does between mlx5dv and the device (devx.c), as UCX uses it: the umems of work queues
and doorbell records are registered without write access.
"""

from __future__ import annotations

from emu.driver.command.words import pack64, unpack64
from layouts.enums import Op

PAGE = 4096
READ, WRITE = 1, 2


class Devx:
    """A driver whose commands are a process's, and create objects in user memory."""

    def __init__(self, driver):
        self._driver = driver
        self.uid = driver.must(Op.CREATE_UCTX).uid
        self.uar = driver.must(Op.ALLOC_UAR, uid=self.uid).uar

    def __getattr__(self, name):
        return getattr(self._driver, name)

    def alloc_pd(self):
        return self.must(Op.ALLOC_PD).pd

    def command(self, op, **fields):
        in_user_memory = {
            Op.CREATE_CQ: self._cq,
            Op.CREATE_QP: self._qp,
            Op.CREATE_RMP: self._rmp,
            Op.CREATE_MKEY: self._mkey,
        }.get(op, dict)
        return self._driver.command(op, _uid=self.uid, **in_user_memory(fields))

    def must(self, op, **fields):
        answer = self.command(op, **fields)
        assert (answer.delivery, answer.status) == (0, 0), op
        return answer

    def umem(self, pages, rights):
        """The number of a umem over these pages."""
        entries = pack64([page | rights for page in pages])
        return self._driver.must(
            Op.CREATE_UMEM, uid=self.uid, umem={"num_of_mtt": len(pages)}, extra=entries
        ).umem_id

    def _record(self, address):
        number = self.umem([address // PAGE * PAGE], READ)
        return {"dbr_umem_valid": 1, "dbr_umem_id": number, "dbr_addr": address % PAGE}

    def _cq(self, fields):
        context = fields["cq_context"] | self._record(fields["cq_context"]["dbr_addr"])
        number = self.umem(unpack64(fields["extra"]), READ | WRITE)
        place = {"cq_umem_valid": 1, "cq_umem_id": number}
        return {"cq_context": context | {"uar_page": self.uar}, **place}

    def _qp(self, fields):
        context = fields["qpc"] | self._record(fields["qpc"]["dbr_addr"])
        number = self.umem(unpack64(fields["extra"]), READ)
        place = {"wq_umem_valid": 1, "wq_umem_id": number}
        return {"qpc": context | {"uar_page": self.uar}, **place}

    def _rmp(self, fields):
        number = self.umem(unpack64(fields["extra"]), READ)
        place = {"wq_umem_valid": 1, "wq_umem_id": number}
        queue = fields["ctx"]["wq"]
        return {"ctx": fields["ctx"] | {"wq": queue | self._record(queue["dbr_addr"]) | place}}

    def _mkey(self, fields):
        pages = [page for page in unpack64(fields["extra"]) if page]
        place = {"mkey_umem_valid": 1, "mkey_umem_id": self.umem(pages, READ | WRITE)}
        return {"memory_key_mkey_entry": fields["memory_key_mkey_entry"], **place}
