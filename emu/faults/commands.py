"""The points of the command interface: before a command runs, after it, and its completion."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from emu.errors import CmdError
from emu.faults.event import Event, set_fields
from emu.faults.names import number_of
from emu.faults.plan import Rule
from emu.faults.vocabulary import Action, Point
from emu.ports import DmaError
from emu.registry import COMMANDS
from emu.turns import Turns
from layouts.enums import Delivery, Op, Status

if TYPE_CHECKING:
    from emu.cmdif import CommandInterface, Request
    from emu.faults.injector import Injector

log = logging.getLogger(__name__)

_STARVED = "CREATE_"


class InjectedError(CmdError):
    """A refusal that a rule wants."""

    def __init__(self, rule: Rule) -> None:
        status = Status(number_of(rule.status or "INT_ERR", Status))
        super().__init__(status, "fault injected", rule.name)
        self._syndrome = rule.syndrome

    @property
    def syndrome(self) -> int:
        """The rule's own, or that of the reason."""
        return self._syndrome if isinstance(self._syndrome, int) else super().syndrome


class CommandPoint:
    """Takes a delivered command through its points."""

    def __init__(self, faults: Injector) -> None:
        self._faults = faults

    def serve(self, cmdif: CommandInterface, request: Request) -> Turns[bool]:
        """Run and answer a command; False when its completion comes later, or never."""
        is_done = yield from self._serve(cmdif, request)
        self._faults.follow()
        return is_done

    def _serve(self, cmdif: CommandInterface, request: Request) -> Turns[bool]:
        faults = self._faults
        if faults.effects.is_gone:
            return False
        views = _view(request, is_out=False)
        rule = faults.at(Event(Point.CMD, _values(request), views))
        if rule is None:
            starved = self._starved(request)
            return (yield from self._run(cmdif, request, starved))
        if rule.action is Action.FAIL:
            return (yield from self._run(cmdif, request, InjectedError(rule)))
        if rule.action is Action.CORRUPT and views:
            set_fields(views[""], rule.set or {})
            return (yield from self._run(cmdif, request, None))
        if rule.action is Action.DELAY:
            faults.later(rule, lambda: self._begin(cmdif, self._late(cmdif, request)))
        return False

    def _starved(self, request: Request) -> CmdError | None:
        if not self._faults.effects.is_starving or not _name(request).startswith(_STARVED):
            return None
        return CmdError(Status.NO_RES_ERR, "firmware has too few pages")

    def _run(
        self, cmdif: CommandInterface, request: Request, refusal: CmdError | None
    ) -> Turns[bool]:
        yield from cmdif.execute(request, refusal)
        values = _values(request) | {"status": _status(request)}
        rule = self._faults.at(Event(Point.CMD_DONE, values, _view(request, is_out=False)))
        delivery = int(Delivery.OK)
        if rule is None:
            return (yield from self._deliver(cmdif, request, delivery))
        if rule.action is Action.DROP:
            return False
        if rule.action is Action.DELAY:
            self._faults.later(rule, lambda: self._begin(cmdif, self._deliver_late(cmdif, request)))
            return False
        if rule.delivery is not None:
            delivery = number_of(rule.delivery, Delivery)
        elif rule.action is Action.FAIL:
            error = InjectedError(rule)
            request.out[:] = bytes(len(request.out))
            request.out[0] = error.status
            request.out[4:8] = error.syndrome.to_bytes(4, "big")
        elif rule.action is Action.CORRUPT:
            views = _view(request, is_out=True)
            set_fields(views.get(""), rule.set or {})
        elif rule.action is Action.REPLACE:
            data = bytes.fromhex(rule.data or "")[: len(request.out)]
            request.out[: len(data)] = data
        return (yield from self._deliver(cmdif, request, delivery))

    def _deliver(self, cmdif: CommandInterface, request: Request, delivery: int) -> Turns[bool]:
        yield from cmdif.deliver(request, delivery)
        rule = self._faults.at(Event(Point.CMD_COMPLETION, _values(request), {}))
        if rule is None:
            return True
        if rule.action is Action.DELAY:
            self._faults.later(rule, lambda: self._finish(cmdif, request))
        elif rule.action is Action.DUPLICATE:
            for _ in range(rule.count or 1):
                self._faults.later(rule, lambda: self._finish(cmdif, request), ms=0)
            return True
        return False

    def _begin(self, cmdif: CommandInterface, work: Turns[None]) -> None:
        """Do what was put off; a slot that cannot be reached any more is nobody's loss."""

        def guarded() -> Turns[None]:
            try:
                yield from work
            except DmaError as error:
                log.warning("%s: too late for it: %s", self._faults.function.model.name, error)

        cmdif.begin(guarded())

    def _late(self, cmdif: CommandInterface, request: Request) -> Turns[None]:
        if (yield from self._run(cmdif, request, None)):
            self._finish(cmdif, request)
        self._faults.follow()

    def _deliver_late(self, cmdif: CommandInterface, request: Request) -> Turns[None]:
        if (yield from self._deliver(cmdif, request, int(Delivery.OK))):
            self._finish(cmdif, request)

    @staticmethod
    def _finish(cmdif: CommandInterface, request: Request) -> None:
        cmdif.finish(request.slot)
        cmdif.report()


def _name(request: Request) -> str:
    op = request.opcode
    return Op(op).name.lstrip("_") if op in Op._value2member_map_ else f"{op:#x}"


def _values(request: Request) -> dict[str, Any]:
    op = request.opcode
    known = Op(op) if op in Op._value2member_map_ else op
    return {"op": known, "op_mod": request.op_mod, "slot": request.slot}


def _status(request: Request) -> Any:
    status = request.out[0]
    return Status(status) if status in Status._value2member_map_ else status


def _view(request: Request, *, is_out: bool) -> dict[str, Any]:
    """The declared structure of a command's input or output, where it is long enough for it."""
    command = COMMANDS.get(request.opcode)
    if command is None:
        return {}
    layout, data = (
        (command.layout_out, request.out) if is_out else (command.layout_in, request.data)
    )
    return {"": layout.view(data)} if len(data) >= layout.size else {}
