"""How work requests ended, as a test wants to say it."""

from __future__ import annotations

from layouts.enums import CqeOpcode

_ERRORS = (CqeOpcode.REQ_ERR, CqeOpcode.RESP_ERR)


def settle(node):
    """Let the device do all its work."""
    node.driver.bar.settle()


def good(qp):
    """All completions that wait; each must be a success."""
    found = qp.cq.drain()
    assert not [completion for completion in found if completion.opcode in _ERRORS], found
    return found


def failure(qp):
    """The syndrome of the first request that failed."""
    settle(qp.node)
    errors = [found for found in qp.cq.drain() if found.opcode == CqeOpcode.REQ_ERR]
    assert errors, "nothing failed"
    return errors[0].syndrome
