"""The fault points of work requests and of their completions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import Field as Bounds

from emu.device.engine.eth import queues as eth_queues
from emu.device.engine.events.completions import CQE_POINT, error_entry
from emu.device.engine.events.held import hold_or_write
from emu.device.engine.qp import lifecycle as qp_life
from emu.device.engine.qp.send_requests import WQE_POINT, Failure
from emu.device.engine.rc.dynamic import Dcr
from emu.device.faults.delivery_actions import Losable, Repeatable
from emu.device.faults.enum_names import number_of
from emu.device.faults.event import MISSING, Event, EventField, Opened, RuleInjector, change_fields
from emu.device.faults.parameters import DATA, MS, one_of, set_in
from emu.device.faults.registry import Parameter, action, point
from emu.device.faults.rule import Rule
from emu.device.objects.eth.rq import Rq
from emu.device.objects.eth.sq import Sq
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.queue import Queue
from emu.device.objects.queues.send_queue import Wqe
from emu.device.state.hca import Hca
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode
from layouts.prm import Prm
from layouts.rings.cqe import OP_OWN, cqe64

_OPCODE_SHIFT = 4
_WQE_OPCODE_SHIFT = 24

_SYNDROME = one_of("syndrome", CqeSyndrome)
_VENDOR = Parameter("vendor", Annotated[int, Bounds(strict=True, ge=0, le=255)])


def _opcode(number: int) -> int:
    """Return the opcode as a member of its enumeration if it has a name."""
    return Opcode(number) if number in Opcode._value2member_map_ else number


def _stop(hca: Hca, queue: Queue) -> None:
    """Move a queue to ERR: a queue pair, SQ or RQ. Queues of other classes are left alone."""
    if isinstance(queue, Qp):
        qp_life.to_error(hca, queue)
    elif isinstance(queue, Sq):
        eth_queues.stop_sq(hca.scheduler, queue)
    elif isinstance(queue, Rq):
        eth_queues.stop_rq(hca.scheduler, queue)


def _exists(hca: Hca, queue: Queue) -> bool:
    """Return whether the queue is still in the table of its number, not destroyed or replaced.

    The responder of a DC initiator, which is in no table, exists while its target does.
    """
    number = queue.handle
    if isinstance(queue, Dcr):
        return hca.dcts.get(number) is queue.dct
    return queue in (hca.qps.get(number), hca.sqs.get(number), hca.rqs.get(number))


def _syndrome(rule: Rule) -> CqeSyndrome:
    return CqeSyndrome(number_of(rule["syndrome"] or "REMOTE_ABORTED_ERR", CqeSyndrome))


@point(
    WQE_POINT, "the device reads a work request of a send queue",
    EventField("opcode", Opcode, is_recorded=True), EventField("qpn", int),
    EventField("service", QpType), EventField("index", int),
)  # fmt: skip
class WorkRequest(Event[Failure | None]):
    """A work request that is about to be executed, or executed again."""

    __slots__ = ("_queue", "_wqe")

    def __init__(self, faults: RuleInjector, queue: Queue, wqe: Wqe) -> None:
        super().__init__(faults)
        self._queue = queue
        self._wqe = wqe

    @property
    def opcode(self) -> int:
        """Opcode of the work request."""
        return _opcode(self._wqe.opcode)

    @property
    def qpn(self) -> int:
        """Number of its queue pair, or of its Ethernet queue."""
        return self._queue.handle

    @property
    def service(self) -> Any:
        """Transport service of its queue pair; missing for an Ethernet queue."""
        return self._queue.st if isinstance(self._queue, Qp) else MISSING

    @property
    def index(self) -> int:
        """The wqe_index, as the driver counts."""
        number: int = self._wqe.index
        return number

    def go_on(self) -> None:
        """Do nothing: the dispatcher executes the request."""

    @action("the work request fails with an error syndrome and its queue stops", takes=[_SYNDROME])
    def fail(self, rule: Rule) -> Failure:
        """Return the failure with which the dispatcher completes the request unexecuted.

        The syndrome is REMOTE_ABORTED_ERR by default; the queue goes to error.
        """
        return Failure(_syndrome(rule), f"fault {rule.name}")


@point(
    CQE_POINT, "a completion is about to be written",
    EventField("opcode", CqeOpcode, is_recorded=True), EventField("qpn", int),
    EventField("cqn", int), EventField("wqe_counter", int), EventField("wqe_opcode", Opcode),
    EventField("byte_cnt", int),
    EventField("service", QpType),
    opened=Opened("fields of the entry", lambda _match: [cqe64], "cqe."),
)  # fmt: skip
class CompletionEvent(Losable[bool], Repeatable[bool]):
    """An entry for a completion queue. A dropped entry counts as written for the dispatcher."""

    __slots__ = ("_cq", "_entry", "_front", "_op_own", "_queue", "_solicited", "_whole", "opcode")
    ends_with_objects = True
    instead = True

    def __init__(
        self, faults: RuleInjector, cq: Cq, queue: Queue, entry: bytes, op_own: int, solicited: bool
    ) -> None:
        super().__init__(faults)
        self._cq = cq
        self._queue = queue
        self._entry = entry
        self._op_own = op_own
        self._solicited = solicited
        # Data that are scattered to a CQE of 128 bytes precede the CQE.
        self._front, self._whole = entry[:-OP_OWN], bytearray((*entry[-OP_OWN:], op_own))
        self.opcode = CqeOpcode(op_own >> _OPCODE_SHIFT)
        """Opcode of the completion."""

    @property
    def qpn(self) -> int:
        """Number of its queue pair, or of its Ethernet queue."""
        return self._queue.handle

    @property
    def cqn(self) -> int:
        """Number of the completion queue."""
        return self._cq.handle

    @property
    def service(self) -> Any:
        """Transport service of its queue pair; missing for an Ethernet queue."""
        return self._queue.st if isinstance(self._queue, Qp) else MISSING

    @property
    def wqe_counter(self) -> Any:
        """The wqe_counter of its work request; missing for a signature error.

        A signature error also lacks ``wqe_opcode`` and ``byte_cnt``.
        """
        return self._view.wqe_counter if self._is_of_request else MISSING

    @property
    def wqe_opcode(self) -> Any:
        """Opcode of its work request."""
        return _opcode(self._wqe_opcode) if self._is_of_request else MISSING

    @property
    def byte_cnt(self) -> Any:
        """Byte count of the completion."""
        return self._view.byte_cnt if self._is_of_request else MISSING

    @property
    def _view(self) -> Any:
        return cqe64.view(self._whole)

    @property
    def _wqe_opcode(self) -> int:
        number: int = self._view.sop_drop_qpn >> _WQE_OPCODE_SHIFT
        return number

    @property
    def _is_of_request(self) -> bool:
        return self.opcode is not CqeOpcode.SIG_ERR

    def views(self) -> Mapping[str, Prm]:
        """Return the entry, with and without its prefix."""
        return {"cqe.": self._view, "": self._view}

    def go_on(self) -> bool:
        """Write the entry, or put it behind the delayed entries of its CQ; return True then.

        See :func:`emu.device.engine.events.cq.write`.
        """
        return self._write(self._entry, self._op_own, solicited=self._solicited)

    @action(
        "the completion reports an error syndrome and its queue pair stops; signature errors are"
        " unchanged, because they do not complete a request",
        takes=[_SYNDROME, _VENDOR],
    )
    def fail(self, rule: Rule) -> bool:
        """Write an error CQE (REQ_ERR or RESP_ERR) instead, and move its queue to ERR; return True.

        The syndrome is REMOTE_ABORTED_ERR by default. A signature error is written unchanged.
        """
        if not self._is_of_request:
            return self.go_on()
        is_send = self.opcode in (CqeOpcode.REQ, CqeOpcode.REQ_ERR)
        view = self._view
        kind = CqeOpcode.REQ_ERR if is_send else CqeOpcode.RESP_ERR
        entry = error_entry(
            self._queue, kind, _syndrome(rule), wqe_counter=view.wqe_counter,
            vendor=rule["vendor"], wqe_opcode=self._wqe_opcode, srqn=view.srqn,
        )  # fmt: skip
        self._write(entry, kind << _OPCODE_SHIFT, solicited=True)
        _stop(self.faults.hca, self._queue)
        return True

    @action(
        "the completion is delayed by ms, and so are later ones of its completion queue",
        needs=[MS],
    )
    def delay(self, rule: Rule) -> bool:
        """Write the entry after ``ms``: a queue is in order, so later entries wait behind it."""
        write = partial(self._append, self._entry, self._op_own, solicited=self._solicited)
        self.faults.delays.later_in_line(rule, self._cq, write, self)
        return True

    @action("fields of the completion are set to the values in set", needs=[set_in(cqe64)])
    def corrupt(self, rule: Rule) -> bool:
        """Write the entry with other fields; return whether the CQ takes it.

        Behind delayed entries of its CQ the entry is written later; True then. Raises NoEffectError
        if no field takes its value.
        """
        change_fields([self._view], rule["set"])
        return self._write_whole()

    @action("data replaces the first bytes", needs=[DATA])
    def replace(self, rule: Rule) -> bool:
        """Write the entry with other first bytes; op_own, the last byte, is kept."""
        new = bytes.fromhex(rule["data"])[:OP_OWN]
        self._whole[: len(new)] = new
        return self._write_whole()

    def _write_whole(self) -> bool:
        whole = self._whole
        entry = self._front + bytes(whole[:OP_OWN])
        return self._write(entry, whole[OP_OWN] & ~1, solicited=self._solicited)

    def _write(self, entry: bytes, op_own: int, *, solicited: bool) -> bool:
        """Do :meth:`_append`, or do it later, behind the delayed entries of the CQ."""
        write = partial(self._append, entry, op_own, solicited=solicited)
        return self.faults.delays.follows_in_line(self._cq, write) or write()

    def _append(self, entry: bytes, op_own: int, *, solicited: bool) -> bool:
        """Append an entry to the CQ; return False if the CQ refuses it.

        Returns True without a write if the CQ or the queue has been destroyed since.
        """
        hca, cq = self.faults.hca, self._cq
        if hca.cqs.get(cq.handle) is not cq or not _exists(hca, self._queue):
            return True
        return hold_or_write(hca.cqes, cq, entry, op_own, solicited)
