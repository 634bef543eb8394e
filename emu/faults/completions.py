"""The points of work requests and of their completions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from emu.engine import cq as cq_engine
from emu.engine import qp_life
from emu.engine.send_work import LocalError
from emu.engine.sq import Wqe
from emu.faults.event import Event, set_fields
from emu.faults.names import number_of
from emu.faults.plan import Rule
from emu.faults.vocabulary import Action, Point
from emu.objects import Cq, Qp
from layouts.cqe import OP_OWN, cqe64
from layouts.enums import CqeOpcode, CqeSyndrome, Opcode

if TYPE_CHECKING:
    from emu.faults.injector import Injector

_SOLICITED = 1 << 1
_OPCODE_SHIFT = 4
_WQE_OPCODE_SHIFT = 24


def _opcode(number: int) -> Any:
    return Opcode(number) if number in Opcode._value2member_map_ else number


class RequestPoint:
    """Stands where a work request is read."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults

    def check(self, qp: Qp, wqe: Wqe) -> None:
        """Raises LocalError for a request that is to fail."""
        if not self._faults.wants(Point.WQE):
            return
        values = {
            "opcode": _opcode(wqe.opcode), "qpn": qp.handle, "service": qp.st, "index": wqe.index,
        }  # fmt: skip
        rule = self._faults.at(Event(Point.WQE, values))
        if rule is not None:
            raise LocalError(_syndrome(rule), f"fault {rule.name}")


class CompletionPoint:
    """Stands before the writer of CQEs."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults

    def write(self, cq: Cq, qp: Qp, entry: bytes, op_own: int, *, solicited: bool) -> bool:
        """As :func:`emu.engine.cq.write`; a completion that a rule loses counts as written."""
        if not self._faults.wants(Point.CQE):
            return self._write(cq, qp, entry, op_own, solicited)
        whole = bytearray(entry + bytes((op_own,)))
        opcode = CqeOpcode(op_own >> _OPCODE_SHIFT)
        values: dict[str, Any] = {
            "opcode": opcode,
            "qpn": qp.handle,
            "cqn": cq.handle,
            "service": qp.st,
        }
        view = cqe64.view(whole)
        if opcode is not CqeOpcode.SIG_ERR:
            values["wqe_counter"], values["byte_cnt"] = view.wqe_counter, view.byte_cnt
            values["wqe_opcode"] = _opcode(view.sop_drop_qpn >> _WQE_OPCODE_SHIFT)
        rule = self._faults.at(Event(Point.CQE, values, {"": view}))
        # A report of a signature is about no request that could fail instead.
        if rule is None or (rule.action is Action.FAIL and opcode is CqeOpcode.SIG_ERR):
            return self._write(cq, qp, entry, op_own, solicited)
        if rule.action is Action.FAIL:
            self._fail(rule, cq, qp, opcode, view)
        elif rule.action is Action.DELAY:
            write = partial(self._write, cq, qp, entry, op_own, solicited)
            self._faults.later(rule, write)
        elif rule.action is Action.DUPLICATE:
            for _ in range(1 + (rule.count or 1)):
                self._write(cq, qp, entry, op_own, solicited)
        elif rule.action in (Action.CORRUPT, Action.REPLACE):
            set_fields(view, rule.set or {})
            new = bytes.fromhex(rule.data or "")[:OP_OWN]
            whole[: len(new)] = new
            return self._write(cq, qp, bytes(whole[:OP_OWN]), whole[OP_OWN] & ~1, solicited)
        return True

    def _fail(self, rule: Rule, cq: Cq, qp: Qp, opcode: CqeOpcode, view: Any) -> None:
        """The request completes in error instead, and its queue pair stops."""
        is_send = opcode in (CqeOpcode.REQ, CqeOpcode.REQ_ERR)
        hca = self._faults.hca
        entry = cq_engine.error_entry(
            qp, _syndrome(rule), wqe_counter=view.wqe_counter, vendor=rule.vendor or 0,
            wqe_opcode=view.sop_drop_qpn >> _WQE_OPCODE_SHIFT, srqn=view.srqn,
        )  # fmt: skip
        kind = CqeOpcode.REQ_ERR if is_send else CqeOpcode.RESP_ERR
        self._write(cq, qp, entry, kind << _OPCODE_SHIFT, True)
        qp_life.to_error(hca, qp)

    def _write(self, cq: Cq, qp: Qp, entry: bytes, op_own: int, solicited: bool) -> bool:
        """Append the entry, unless its queue or its queue pair has gone meanwhile."""
        hca = self._faults.hca
        if hca.cqs.get(cq.handle) is not cq or hca.qps.get(qp.handle) is not qp:
            return True
        return cq_engine.write(hca, cq, entry, op_own, solicited)


def _syndrome(rule: Rule) -> CqeSyndrome:
    return CqeSyndrome(number_of(rule.syndrome or "REMOTE_ABORTED_ERR", CqeSyndrome))
