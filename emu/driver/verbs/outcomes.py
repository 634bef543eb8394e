"""Results of work requests. An unexpected result raises DriverError."""

from __future__ import annotations

from emu.driver.command.answer import expect
from emu.driver.verbs.completions import ERRORS, CompletionQueue, Found
from emu.driver.verbs.queue_pair import QueuePair
from layouts.enums.cqe import CqeOpcode


def all_good(cq: CompletionQueue) -> list[Found]:
    """Return all pending completions. Raises DriverError if one has an error."""
    completions = cq.drain()
    errors = [completion for completion in completions if completion.opcode in ERRORS]
    expect(not errors, f"completions with errors: {errors}")
    return completions


def good(qp: QueuePair) -> list[Found]:
    """Return all pending completions of a queue pair's CQ; each must be a success."""
    return all_good(qp.cq)


def failure(qp: QueuePair) -> int:
    """Run the device; return the syndrome of the first send WQE that failed (REQ_ERR).

    Raises DriverError if none failed.
    """
    qp.node.settle()
    errors = [done for done in qp.cq.drain() if done.opcode == CqeOpcode.REQ_ERR]
    expect(errors, "nothing failed")
    return errors[0].syndrome


def first_error(cq: CompletionQueue, opcode: CqeOpcode) -> int:
    """Return the syndrome of the first pending error.

    The device is not run. Raises DriverError if none is pending, or if its opcode is not
    ``opcode``.
    """
    errors = [done for done in cq.drain() if done.opcode in ERRORS]
    expect(errors, "nothing failed")
    expect(errors[0].opcode == opcode, f"{errors[0].opcode!r}, not {opcode!r}")
    return errors[0].syndrome
