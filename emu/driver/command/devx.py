"""Process that creates its own objects: its commands carry its uid, its memory is in umems.

The module does what mlx5_ib does between mlx5dv and the device (devx.c), with UCX's conventions.
Umems of work queues and doorbell records are registered without write access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from emu.driver.command.answer import Answer, DriverCommandError
from emu.driver.command.driver import Driver, Fields
from emu.driver.command.words import pack64, unpack64
from layouts.enums.cmd import Op

PAGE = 4096
READ, WRITE = 1, 2
"""Rights of a umem's pages, in the low bits of a page's address."""


class Devx:
    """Driver whose commands come from a process and create objects in user memory.

    A Devx object replaces a :class:`Driver` anywhere. Attributes that it lacks are the driver's.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.uid: int = driver.must(Op.CREATE_UCTX).uid
        self.uar: int = driver.must(Op.ALLOC_UAR, uid=self.uid).uar

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def alloc_pd(self) -> int:
        """Run ALLOC_PD with the process's uid."""
        return int(self.must(Op.ALLOC_PD).pd)

    def command(self, op: Op, **fields: Any) -> Answer:
        """Run the process's command; buffers and records that ``fields`` name get umems.

        Return the answer, refused or not. Umems are registered first, and stay if the command is
        refused. Raises DriverCommandError if a umem is refused.
        """
        in_user_memory: Callable[[Fields], Fields] = {
            Op.CREATE_CQ: self._cq,
            Op.CREATE_QP: self._qp,
            Op.CREATE_RMP: self._rmp,
            Op.CREATE_MKEY: self._mkey,
        }.get(op, dict)
        return self._driver.command(op, _uid=self.uid, **in_user_memory(fields))

    def must(self, op: Op, **fields: object) -> Answer:
        """Run the process's command and return its answer. Raises DriverCommandError if refused."""
        answer = self.command(op, **fields)
        if answer.delivery or answer.status:
            raise DriverCommandError(f"{op.name}: delivery {answer.delivery}, {answer.status!r}")
        return answer

    def umem(self, pages: Iterable[int], rights: int) -> int:
        """Register a umem over these pages; return its number.

        ``rights`` are READ, WRITE or both. Raises DriverCommandError if refused.
        """
        entries = [page | rights for page in pages]
        number: int = self._driver.must(
            Op.CREATE_UMEM, uid=self.uid, umem={"num_of_mtt": len(entries)}, extra=pack64(entries)
        ).umem_id
        return number

    def _record(self, address: int) -> Fields:
        number = self.umem([address // PAGE * PAGE], READ)
        return {"dbr_umem_valid": 1, "dbr_umem_id": number, "dbr_addr": address % PAGE}

    def _cq(self, fields: Fields) -> Fields:
        """Return the input of CREATE_CQ with ring and record in new umems, and the user's UAR."""
        context = fields["cq_context"] | self._record(fields["cq_context"]["dbr_addr"])
        number = self.umem(unpack64(fields["extra"]), READ | WRITE)
        place = {"cq_umem_valid": 1, "cq_umem_id": number}
        return {"cq_context": context | {"uar_page": self.uar}, **place}

    def _qp(self, fields: Fields) -> Fields:
        """Return the input of CREATE_QP with rings and record in new umems, and the user's UAR."""
        context = fields["qpc"] | self._record(fields["qpc"]["dbr_addr"])
        number = self.umem(unpack64(fields["extra"]), READ)
        place = {"wq_umem_valid": 1, "wq_umem_id": number}
        return {"qpc": context | {"uar_page": self.uar}, **place}

    def _rmp(self, fields: Fields) -> Fields:
        """Return the input of CREATE_RMP with ring and doorbell record in new umems."""
        number = self.umem(unpack64(fields["extra"]), READ)
        place = {"wq_umem_valid": 1, "wq_umem_id": number}
        queue = fields["ctx"]["wq"]
        return {"ctx": fields["ctx"] | {"wq": queue | self._record(queue["dbr_addr"]) | place}}

    def _mkey(self, fields: Fields) -> Fields:
        """Return the input of CREATE_MKEY with the pages other than 0 in a new umem."""
        pages = [page for page in unpack64(fields["extra"]) if page]
        place = {"mkey_umem_valid": 1, "mkey_umem_id": self.umem(pages, READ | WRITE)}
        return {"memory_key_mkey_entry": fields["memory_key_mkey_entry"], **place}
