"""An event of a command: its fields, views of input and output, and its late completion."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emu.device.cmdif.interface import CommandInterface
from emu.device.cmdif.registry import COMMANDS, Command
from emu.device.cmdif.request import CommandRequest
from emu.device.faults.enum_names import agrees
from emu.device.faults.event import (
    Event,
    EventField,
    NoEffectError,
    Opened,
    Result,
    RuleInjector,
    set_fields,
)
from emu.device.faults.parameters import FieldPlace, misfit_values
from emu.device.faults.registry import Parameter, Problem
from emu.device.faults.rule import Assignments, Rule
from emu.device.ports import DmaError
from emu.device.rounds.portions import Portions
from layouts.enums.cmd import Op
from layouts.prm import Prm

log = logging.getLogger(__name__)

FIELDS = (
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


def new_fields(*, is_out: bool) -> Parameter:
    """Return a parameter ``set`` for new values of the fields of a command's input or output.

    The parameter's check yields the mistakes of :func:`misfit_values`.
    """

    def check(values: Any, rule: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield the names and values that no structure of the ``match``'s commands takes."""
        match = rule.get("match", {})
        commands = _commands(match)

        def places_of(path: str) -> list[FieldPlace]:
            holders = [_holder(command, match, path, is_out=is_out) for command in commands]
            places = [(layout, name) for layout, name in holders if layout is not None]
            return places if len(places) == len(holders) else []

        return misfit_values(values, places_of, "the commands of match")

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


INPUT = Opened("fields of the command's input", _layouts_in)


class CommandEvent(Event[Result]):
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
