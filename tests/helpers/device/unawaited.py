"""Commands that a driver does not wait for: what a round does with them is seen round by round."""

from __future__ import annotations

from emu.device.cmdif.registry import COMMANDS

DOORBELL = 0x018
"""The command doorbell in the initialization segment."""


def begin(driver, *commands):
    """Give the device commands, each (op, fields), in slots of their own; nothing has run yet."""
    for slot, (op, fields) in enumerate(commands):
        entry = COMMANDS[op]
        data = bytes(entry.layout_in.new(opcode=op, **fields).buf)
        driver.submit(data, entry.layout_out.size, slot)
    driver.write32(DOORBELL, (1 << len(commands)) - 1)


def by_round(node, cq):
    """Run a function until it is idle; the completions that each of its rounds has brought."""
    rounds = []
    while node.function.run():
        rounds.append(cq.drain())
    return [*rounds, cq.drain()]
