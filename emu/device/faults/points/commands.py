"""The fault points of commands: before one runs, after it has run, and its completion."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emu.device.cmdif.interface import COMMAND_POINT, CommandInterface
from emu.device.cmdif.registry import COMMANDS, Command
from emu.device.cmdif.request import CommandRequest
from emu.device.errors import CmdError
from emu.device.faults.delivery_actions import Delayable, Losable
from emu.device.faults.enum_names import agrees, number_of
from emu.device.faults.event import (
    Event,
    EventField,
    NoEffectError,
    Opened,
    Result,
    RuleInjector,
    set_fields,
)
from emu.device.faults.injected import STATUS, SYNDROME, InjectedError
from emu.device.faults.parameters import (
    COUNT,
    DATA,
    MS,
    near_fields,
    one_of,
    other_value,
    repetitions,
    value_needed,
)
from emu.device.faults.registry import Parameter, Problem, action, point
from emu.device.faults.rule import Assignments, Rule
from emu.device.ports import DmaError
from emu.device.rounds.portions import Portions
from emu.device.state.points import FaultPoint
from layouts.enums import DeliveryStat, Op, Status
from layouts.prm import Prm

log = logging.getLogger(__name__)

DONE_POINT: FaultPoint[[CommandInterface, CommandRequest], Portions[bool]] = FaultPoint("cmd.done")
COMPLETION_POINT: FaultPoint[[CommandInterface, CommandRequest], bool] = FaultPoint(
    "cmd.completion"
)

_STARVED = "CREATE_"
_FIELDS = (
    EventField("op", Op, is_recorded=True),
    EventField("op_mod", int, is_recorded=True),
    EventField("slot", int),
)


def _commands(match: Mapping[str, Any]) -> Sequence[Command]:
    """Return the commands that ``op`` in a rule's ``match`` allows; all of them if it allows none.

    Empty before ``firmware_cmds`` has been imported, which declares the commands.
    """
    if isinstance(op := match.get("op"), str) and op in Op.__members__ and Op[op] in COMMANDS:
        return [COMMANDS[Op[op]]]
    allowed = [one for one in COMMANDS.values() if op is not None and agrees(op, one.op)]
    return allowed or [*COMMANDS.values()]


def _layouts_in(match: Mapping[str, Any]) -> list[type[Prm]]:
    return [command.layout_in for command in _commands(match)]


def _new_fields(*, is_out: bool) -> Parameter:
    """Return a parameter ``set`` for new values of the fields of a command's input or output.

    The parameter's check yields a mistake for a name that no command of the rule has, and for a
    value that none takes.
    """

    def check(values: Any, rule: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield the names and values that no structure of the ``match``'s commands takes."""
        match = rule.get("match", {})
        commands = _commands(match)
        for path, value in values.items():
            holders = [_holder(command, match, path, is_out=is_out) for command in commands]
            places = [(layout, name) for layout, name in holders if layout is not None]
            if len(places) < len(holders) or not places:
                continue  # a structure that the match does not determine
            if (needed := value_needed(places, value)) is None:
                lacking, name = [layout for layout, _ in places], places[-1][1]
                one = lacking[0].__name__ if len(lacking) == 1 else "the commands of match"
                yield f"set.{path}", f"no field of {one}{near_fields(name, lacking)}"
            elif needed:
                yield f"set.{path}", other_value(needed, value)

    return Parameter("set", Assignments, check)


def _holder(
    command: Command, match: Mapping[str, Any], path: str, *, is_out: bool
) -> tuple[type[Prm] | None, str]:
    """Return the structure that has a field of the command, and the field's name in it.

    ``capability.num_ports`` is in the group of capabilities that ``match`` selects by op_mod,
    ``register_data.oper_speed`` in the register. The structure is None where ``match`` does not
    determine one.
    """
    layout = command.layout_out if is_out else command.layout_in
    field, dot, name = path.partition(".")
    if not dot or command.opened is None or field != command.opened.field:
        return layout, path
    asked = command.layout_in.new()
    numbers = {key: one for key, one in match.items() if isinstance(one, int)}
    if not numbers or set_fields(asked, numbers):
        return None, name
    return command.opened.layout(asked), name


_INPUT = Opened("fields of the command's input", _layouts_in)
_DELIVERY = one_of("delivery", DeliveryStat, 127)


class _OfCommand(Event[Result]):
    """An event of a command; its result is whether the completion may be reported now."""

    __slots__ = ("_line", "cmdif", "request")

    def __init__(
        self, faults: RuleInjector, cmdif: CommandInterface, request: CommandRequest
    ) -> None:
        super().__init__(faults)
        self.cmdif = cmdif
        self.request = request
        self._line = cmdif.line

    @property
    def op(self) -> int:
        """Opcode of the command."""
        op = self.request.opcode
        return Op(op) if op in Op._value2member_map_ else op

    @property
    def op_mod(self) -> int:
        """Opcode modifier of the command."""
        return self.request.op_mod

    @property
    def slot(self) -> int:
        """Slot of the command in the command queue."""
        return self.request.slot

    def views(self) -> Mapping[str, Prm]:
        """Return a view of its input."""
        return self._view(is_out=False)

    def _view(self, *, is_out: bool) -> dict[str, Prm]:
        """Return a view of its input or output under the prefix ""; empty for an unknown command.

        Empty also where the data is shorter than the declared structure.
        """
        request = self.request
        command = COMMANDS.get(request.opcode)
        if command is None:
            return {}
        layout, data = (
            (command.layout_out, request.out) if is_out else (command.layout_in, request.data)
        )
        return {"": layout.view(data)} if len(data) >= layout.size else {}

    def _set(self, rule: Rule, *, is_out: bool) -> None:
        """Set the fields of the rule's ``set`` in the command's input or output.

        Fields that cannot be set are ignored. Raises NoEffectError if none can be set.
        """
        refused = []
        for view in self._view(is_out=is_out).values():
            prefix, opened = self._opened(view)
            for path, value in rule["set"].items():
                if opened is not None and path.startswith(prefix):
                    refused += set_fields(opened, {path.removeprefix(prefix): value})
                else:
                    refused += set_fields(view, {path: value})
        if len(refused) == len(rule["set"]) or not self._view(is_out=is_out):
            raise NoEffectError(f"no field {', '.join(rule['set'])} takes the value")

    def _opened(self, view: Prm) -> tuple[str, Prm | None]:
        """Return the prefix of the fields in the open field of a view, and a view of that field.

        The view is None where no structure is known, or the output is too short for it.
        """
        command = COMMANDS[self.request.opcode]
        asked = self._view(is_out=False).get("")
        if command.opened is None or asked is None:
            return "", None
        name, layout = command.opened.field, command.opened.layout(asked)
        at = next((one.offset // 8 for one in type(view).fields if one.name == name), None)
        if layout is None or at is None or len(view.buf) - at < layout.size:
            return "", None
        return f"{name}.", layout.view(view.buf, at)

    @property
    def _is_dropped(self) -> bool:
        """Whether the driver has left its command queue since, so that no completion is
        expected.
        """
        return self.cmdif.line is not self._line

    def _finish(self) -> None:
        """Report the slot in a CMD event now, unless the driver has dropped the command queue."""
        if not self._is_dropped:
            self.cmdif.finish(self.request.slot)
            self.cmdif.report()

    def _begin_late(self, work: Portions[None]) -> None:
        """Continue later, unless the driver has left its command queue since.

        A DmaError, as when the slot's memory is unmapped by then, is only logged.
        """
        if self._is_dropped:
            return

        def guarded() -> Portions[None]:
            """Do the work; log a DmaError instead of raising it."""
            try:
                yield from work
            except DmaError as error:
                name = self.faults.function.model.name
                log.warning("%s: a delayed command could not be completed: %s", name, error)

        self.cmdif.begin(guarded())


def _never() -> Portions[bool]:
    """Return False in one step: the device keeps the slot, and the command never completes."""
    yield from ()
    return False


@point(COMMAND_POINT, "a command is about to run", *_FIELDS, opened=_INPUT)
class CommandRuns(_OfCommand[Portions[bool]]):
    """A delivered command."""

    __slots__ = ()

    def go_on(self) -> Portions[bool]:
        """Run it, return its output to the driver and notify rules that count commands.

        A command that creates an object is refused with NO_RES_ERR while the ``pages`` effect
        starves the firmware.
        """
        return self._followed(self._run(self._starved()))

    @action("the command does not run and fails with status and syndrome", takes=[STATUS, SYNDROME])
    def fail(self, rule: Rule) -> Portions[bool]:
        """Refuse it with the rule's status and syndrome (INT_ERR by default).

        The command does not run.
        """
        return self._followed(self._run(InjectedError(rule)))

    @action("the command does not run and never completes")
    def drop(self, _rule: Rule) -> Portions[bool]:
        """Drop it: the command does not run, never completes, and the device keeps its slot."""
        return self._followed(_never())

    @action("the command is delayed by ms", needs=[MS])
    def delay(self, rule: Rule) -> Portions[bool]:
        """Run it after ``ms``; the slot stays with the device until then."""
        self.faults.later(rule, lambda: self._begin_late(self._late()), self)
        return self._followed(_never())

    @action("fields of the command's input are set to the values in set",
            needs=[_new_fields(is_out=False)])  # fmt: skip
    def corrupt(self, rule: Rule) -> Portions[bool]:
        """Change fields of its input and run it.

        Raises NoEffectError if no field takes its value.
        """
        self._set(rule, is_out=False)
        return self._followed(self._run(None))

    def _starved(self) -> CmdError | None:
        """Return the refusal (NO_RES_ERR) of a create command while the firmware lacks pages.

        Or None.
        """
        op = self.op
        if not (self.faults.lacks_pages() and isinstance(op, Op) and op.name.startswith(_STARVED)):
            return None
        return CmdError(Status.NO_RES_ERR, "firmware has too few pages")

    def _run(self, refusal: CmdError | None) -> Portions[bool]:
        """Run the command or its refusal, and show it at ``cmd.done``.

        Return whether to report it.
        """
        yield from self.cmdif.execute(self.request, refusal)
        return (yield from self.faults.show(DONE_POINT, self.cmdif, self.request))

    def _followed(self, work: Portions[bool]) -> Portions[bool]:
        """Finish ``work``, then notify rules that count commands; return the result of ``work``."""
        is_done = yield from work
        self.faults.follow()
        return is_done

    def _late(self) -> Portions[None]:
        if (yield from self._run(None)):
            self._finish()
        self.faults.follow()


@point(
    DONE_POINT, "a command has run; its output is not written yet", *_FIELDS,
    EventField("status", Status), opened=_INPUT,
)  # fmt: skip
class CommandHasRun(_OfCommand[Portions[bool]]):
    """A command that has run and whose output has not been delivered."""

    __slots__ = ()

    @property
    def status(self) -> int:
        """Status of the command."""
        status = self.request.out[0]
        return Status(status) if status in Status._value2member_map_ else status

    def go_on(self) -> Portions[bool]:
        """Write its output to the driver and return its slot; show the completion at its point."""
        return self._deliver(int(DeliveryStat.OK))

    @action("the command has run; status and syndrome replace its output, or a delivery status"
            " accompanies the output", takes=[STATUS, SYNDROME, _DELIVERY])  # fmt: skip
    def fail(self, rule: Rule) -> Portions[bool]:
        """Replace its output by status and syndrome, or with ``delivery`` set only that status.

        The command has had its effects. The default status is INT_ERR.
        """
        if rule["delivery"] is not None:
            return self._deliver(number_of(rule["delivery"], DeliveryStat))
        error, out = InjectedError(rule), self.request.out
        out[:] = bytes(len(out))
        out[0] = error.status
        out[4:8] = error.syndrome.to_bytes(4, "big")
        return self.go_on()

    @action("the command has run but never completes")
    def drop(self, _rule: Rule) -> Portions[bool]:
        """Drop the completion: the device keeps its slot."""
        return _never()

    @action("the command's output is delayed by ms", needs=[MS])
    def delay(self, rule: Rule) -> Portions[bool]:
        """Deliver its output after ``ms``; the slot stays with the device until then."""
        self.faults.later(rule, lambda: self._begin_late(self._late()), self)
        return _never()

    @action("fields of the command's output are set to the values in set, also in capabilities"
            " (`capability.num_ports`) and registers (`register_data.oper_mtu`)",
            needs=[_new_fields(is_out=True)])  # fmt: skip
    def corrupt(self, rule: Rule) -> Portions[bool]:
        """Change fields of its output and deliver it.

        Raises NoEffectError if no field takes its value.
        """
        self._set(rule, is_out=True)
        return self.go_on()

    @action("data replaces the first bytes", needs=[DATA])
    def replace(self, rule: Rule) -> Portions[bool]:
        """Overwrite the first bytes of its output and deliver it.

        Data beyond the output is ignored.
        """
        out = self.request.out
        data = bytes.fromhex(rule["data"])[: len(out)]
        out[: len(data)] = data
        return self.go_on()

    def _deliver(self, delivery: int) -> Portions[bool]:
        """Write the output with a delivery status.

        Return whether the completion may be reported.
        """
        yield from self.cmdif.deliver(self.request, delivery)
        return self.faults.show(COMPLETION_POINT, self.cmdif, self.request)

    def _late(self) -> Portions[None]:
        if (yield from self.go_on()):
            self._finish()


@point(
    COMPLETION_POINT,
    "a command's slot is returned to the driver; its completion event is not posted yet",
    *_FIELDS, opened=_INPUT,
)  # fmt: skip
class CommandCompletes(_OfCommand[bool], Losable[bool], Delayable[bool]):
    """A completed command that the next CMD event will report."""

    __slots__ = ()
    instead = False

    def go_on(self) -> bool:
        """Allow the next CMD event to name its slot."""
        return True

    def go_on_late(self) -> None:
        """Report its slot in an event now."""
        self._finish()

    @action("the completion event is repeated count times (default 1)", takes=[COUNT])
    def duplicate(self, rule: Rule) -> bool:
        """Report its slot, and ``count`` times more after the other commands of the round."""
        for _ in range(repetitions(rule)):
            self.faults.later(rule, self._finish, self, ms=0)
        return True
