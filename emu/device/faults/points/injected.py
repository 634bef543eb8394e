"""The refusal of a command by a rule."""

from __future__ import annotations

from emu.device.errors import CmdError
from emu.device.faults.enum_names import number_of
from emu.device.faults.parameters import number, one_of
from emu.device.faults.rule import Rule
from layouts.enums.cmd import Status

STATUS = one_of("status", Status)
SYNDROME = number("syndrome", 32, "a command's syndrome")


class InjectedError(CmdError):
    """The rule's status (default INT_ERR), and its syndrome (default: the reason's)."""

    def __init__(self, rule: Rule) -> None:
        status = Status(number_of(rule["status"] or "INT_ERR", Status))
        super().__init__(status, "fault injected", rule.name)
        self._syndrome: int | None = rule["syndrome"]

    @property
    def syndrome(self) -> int:
        """Syndrome of the rule, or of the reason."""
        return super().syndrome if self._syndrome is None else self._syndrome
