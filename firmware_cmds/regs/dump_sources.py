"""Segments of a resource dump: the kinds, and the source of each kind's bytes.

Numbers of segment types are the firmware's own: a driver reads the menu and finds them by name
(core/diag/rsc_dump.c). The internal state of hardware slices is not modelled. Their segments list
the queues and their progress.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

from emu.device.cmdif.registry import InT, OutT
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.sq import AnySq
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.costs import LOG_EXAMINED_PER_STEP
from firmware_cmds.memory.mkey import query_mkey
from firmware_cmds.objects.cq import query_cq
from firmware_cmds.objects.eq import query_eq
from firmware_cmds.objects.qp.qp import query_qp
from layouts.memory import mkey
from layouts.objects import cq, eq, qp
from layouts.prm import Prm

if TYPE_CHECKING:
    from emu.device.objects.object import Object
    from emu.device.objects.table import Numbers
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_FIRST_TYPE = 0x1000
_PROGRESS = Struct(">II")
"""Row of a queue: its number, and the index of its next block or WQE."""


class MissingError(Exception):
    """Raised when the requested object does not exist."""


class Contents(NamedTuple):
    """Bytes that are read on demand."""

    size: int
    read: Callable[[int, int], bytes]
    """Returns a number of bytes from an offset. May raise DmaError."""


class _Ring(Protocol):
    @property
    def size_bytes(self) -> int: ...
    def raw(self, at: int, length: int) -> bytes: ...


def made(data: bytes) -> Contents:
    """Return contents that are already in memory."""
    return Contents(len(data), lambda at, length: data[at : at + length])


@dataclass(frozen=True, slots=True)
class Source:
    """Kind of segment."""

    name: str
    """Name in the driver, without MLX5_SGMT_TYPE_."""
    index: str
    """Meaning of index1; "" if it has none."""
    read: Callable[[Hca, int], Contents]
    """Returns the contents of an object. Raises MissingError and CmdError."""
    is_list: bool = False
    """Whether it covers several objects: num_of_obj2 may then mean "all" (MLX5_RSC_DUMP_ALL)."""


def _query(
    handler: Callable[[Hca, InT, OutT], object], asks: type[InT], answers: type[OutT], name: str
) -> Callable[[Hca, int], Contents]:
    """Return a source whose bytes are the output of a query command for the object.

    The source raises MissingError for an index that is too wide, CmdError for an unknown object.
    Side effects of the query remain.
    """

    def read(hca: Hca, index: int) -> Contents:
        out = answers.new()
        cmd = asks.new()
        _set(cmd, name, index)
        handler(hca, cmd, out)
        return made(bytes(out))

    return read


def _set(cmd: Prm, name: str, index: int) -> None:
    """Set a field; raise MissingError for a value wider than the field."""
    try:
        setattr(cmd, name, index)
    except ValueError:  # wider than the command's field
        raise MissingError from None


def _queue(numbers: Numbers, number: int) -> Qp | AnySq | Rq:
    """Return a queue pair, send queue or receive queue.

    Raises MissingError for a number that no such queue has.
    """
    holder = numbers.holders.get(number)
    if not isinstance(holder, Qp | AnySq | Rq):
        raise MissingError
    return holder


def _context(tables: ObjectTables, number: int) -> Contents:
    return made(bytes(_queue(tables.queues, number).encode()))


def _srq_context(tables: ObjectTables, number: int) -> Contents:
    """Return the current context of an SRQ of any form; raise MissingError for none."""
    srq = tables.srqs.get(number)
    if srq is None:
        raise MissingError
    return made(bytes(srq.encode()))


def _ring(ring: _Ring | None) -> Contents:
    if ring is None:
        raise MissingError
    return Contents(ring.size_bytes, ring.raw)


def _sent(tables: ObjectTables, number: int) -> Contents:
    return _ring(_queue(tables.queues, number).send_ring)


def _received(tables: ObjectTables, number: int) -> Contents:
    queue = _queue(tables.queues, number)
    return _ring(queue.rq if isinstance(queue, Qp) else getattr(queue, "queue", None))


def _shared(tables: ObjectTables, number: int) -> Contents:
    srq = tables.srqs.get(number)
    return _ring(None if srq is None else srq.queue)


def _cq_entries(tables: ObjectTables, number: int) -> Contents:
    """Return a CQ's ring, read on demand; raise MissingError for an unknown number."""
    cq = tables.cqs.get(number)
    if cq is None:
        raise MissingError
    return Contents(cq.buffer.length, cq.buffer.read)


def _eq_entries(tables: ObjectTables, number: int) -> Contents:
    """Return an EQ's ring, read on demand; raise MissingError for an unknown number."""
    eq = tables.eqs.get(number)
    if eq is None:
        raise MissingError
    return Contents(eq.buffer.length, eq.buffer.read)


def _all_senders(numbers: Numbers) -> array[int]:
    """Return the numbers of all queues with a send ring."""
    holders = numbers.holders.items()
    return array(
        "I", [number for number, queue in holders if getattr(queue, "send_ring", None) is not None]
    )


def _all_receivers(numbers: Numbers) -> array[int]:
    holders = numbers.holders.items()
    return array("I", [number for number, queue in holders if type(queue) is Rq])


def _listed(
    name: str, listing: Callable[[Numbers], array[int]], progress: Callable[[Object | None], int]
) -> Callable[[Hca, int], Contents]:
    """Return a source with a row for each of many queues.

    The list of queues is read once for a dump, not for each of its accesses. The progress of each
    is read with its row. A queue destroyed meanwhile has progress 0. Both are charged to the round.
    """

    def read(hca: Hca, _index: int) -> Contents:
        listed = hca.dumped.get(name)
        if listed is None:
            hca.budget.charge(len(hca.queues.holders) >> LOG_EXAMINED_PER_STEP)
            listed = hca.dumped[name] = listing(hca.queues)
        return Contents(len(listed) * _PROGRESS.size, partial(rows, hca, listed))

    def rows(hca: Hca, listed: array[int], at: int, length: int) -> bytes:
        first, end = at // _PROGRESS.size, -(-(at + length) // _PROGRESS.size)
        hca.budget.charge(end - first >> LOG_EXAMINED_PER_STEP)
        holders = hca.queues.holders
        data = b"".join(
            _PROGRESS.pack(number, progress(holders.get(number))) for number in listed[first:end]
        )
        skipped = at - first * _PROGRESS.size
        return data[skipped : skipped + length]

    return read


def _sent_so_far(queue: Object | None) -> int:
    ring = getattr(queue, "send_ring", None)
    return 0 if ring is None else ring.ci


def _taken_so_far(queue: Object | None) -> int:
    return queue.queue.consumed if isinstance(queue, Rq) else 0


_SOURCES = (
    Source("PRM_QUERY_QP", "QPN", _query(query_qp, qp.query_qp_in, qp.query_qp_out, "qpn")),
    Source("PRM_QUERY_CQ", "CQN", _query(query_cq, cq.query_cq_in, cq.query_cq_out, "cqn")),
    Source(
        "PRM_QUERY_MKEY",
        "MKEY_INDEX",
        _query(query_mkey, mkey.query_mkey_in, mkey.query_mkey_out, "mkey_index"),
    ),
    Source("FULL_QPC", "QUEUE", _context),
    Source("FULL_CQC", "CQN", _query(query_cq, cq.query_cq_in, cq.query_cq_out, "cqn")),
    Source("FULL_EQC", "EQN", _query(query_eq, eq.query_eq_in, eq.query_eq_out, "eq_number")),
    Source("FULL_SRQC", "SRQN", _srq_context),
    Source("SND_BUFF", "QUEUE", _sent, is_list=True),
    Source("RCV_BUFF", "QUEUE", _received, is_list=True),
    Source("SRQ_BUFF", "SRQN", _shared, is_list=True),
    Source("CQ_BUFF", "CQN", _cq_entries, is_list=True),
    Source("EQ_BUFF", "EQN", _eq_entries, is_list=True),
    Source("SX_SLICE_ALL", "", _listed("SX_SLICE_ALL", _all_senders, _sent_so_far)),
    Source("RX_SLICE_ALL", "", _listed("RX_SLICE_ALL", _all_receivers, _taken_so_far)),
)

SOURCES = dict(enumerate(_SOURCES, _FIRST_TYPE))
"""Sources by segment type."""
