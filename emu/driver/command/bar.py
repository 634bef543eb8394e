"""BAR 0 of a function in this process, and the command register that opens it."""

from __future__ import annotations

POLL_ROUNDS = 1000


class FunctionBar:
    """BAR 0 of a function in this process; what it sends, the ``others`` have to take.

    The function is enabled, as by pci_enable_device and pci_set_master.
    """

    def __init__(self, function, *others):
        self.function = function
        self.functions = (function, *others)
        enable(function)

    def read(self, offset, length):
        return self.function.bar_read(0, offset, length)

    def write(self, offset, data):
        self.function.bar_write(0, offset, data)

    def settle(self):
        for _ in range(POLL_ROUNDS):
            if not any(function.run() for function in self.functions):
                return
        raise AssertionError("the device never runs out of work")


COMMAND = 0x04
MEMORY_SPACE, BUS_MASTER = 1 << 1, 1 << 2


def enable(function, command=MEMORY_SPACE | BUS_MASTER):
    """Write the command register."""
    function.config_write(COMMAND, command.to_bytes(2, "little"))
