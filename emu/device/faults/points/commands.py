"""The fault points of commands: before one runs, after it has run, and its completion."""

from __future__ import annotations

from emu.device.cmdif.interface import COMMAND_POINT, CommandInterface
from emu.device.cmdif.request import CommandRequest
from emu.device.errors import CmdError
from emu.device.faults.delivery_actions import Delayable, Losable
from emu.device.faults.enum_names import number_of
from emu.device.faults.event import EventField
from emu.device.faults.parameters import COUNT, DATA, MS, one_of, repetitions
from emu.device.faults.points.command_event import FIELDS, INPUT, CommandEvent, new_fields
from emu.device.faults.points.injected import STATUS, SYNDROME, InjectedError
from emu.device.faults.registry import action, point
from emu.device.faults.rule import Rule
from emu.device.rounds.portions import Portions
from emu.device.state.points import FaultPoint
from layouts.enums.cmd import DeliveryStat, Op, Status

DONE_POINT: FaultPoint[[CommandInterface, CommandRequest], Portions[bool]] = FaultPoint("cmd.done")
COMPLETION_POINT: FaultPoint[[CommandInterface, CommandRequest], bool] = FaultPoint(
    "cmd.completion"
)

_STARVED = "CREATE_"
_DELIVERY = one_of("delivery", DeliveryStat, 127)


def _never() -> Portions[bool]:
    """Return False in one step: the device keeps the slot, and the command never completes."""
    yield from ()
    return False


@point(COMMAND_POINT, "a command is about to run", *FIELDS, opened=INPUT)
class CommandRuns(CommandEvent[Portions[bool]]):
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
        self.faults.delays.later(rule, lambda: self._begin_late(self._late()), self)
        return self._followed(_never())

    @action("fields of the command's input are set to the values in set",
            needs=[new_fields(is_out=False)])  # fmt: skip
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
    DONE_POINT, "a command has run; its output is not written yet", *FIELDS,
    EventField("status", Status), opened=INPUT,
)  # fmt: skip
class CommandHasRun(CommandEvent[Portions[bool]]):
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
        self.faults.delays.later(rule, lambda: self._begin_late(self._late()), self)
        return _never()

    @action("fields of the command's output are set to the values in set, also in capabilities"
            " (`capability.num_ports`) and registers (`register_data.oper_mtu`)",
            needs=[new_fields(is_out=True)])  # fmt: skip
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
    *FIELDS, opened=INPUT,
)  # fmt: skip
class CommandCompletes(CommandEvent[bool], Losable[bool], Delayable[bool]):
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
            self.faults.delays.later(rule, self._finish, self, ms=0)
        return True
