"""Connect two queue pairs in RTS."""

from __future__ import annotations

from typing import Any

from emu.driver.verbs.queue_pair import QueuePair


def connect(
    one: QueuePair, two: QueuePair, *, psns: tuple[int, int] = (0x10, 0xFFFFF0), **options: object
) -> None:
    """Connect two queue pairs and move them to RTS; ``options`` apply to both, each at its step.

    ``psns`` are the first packet numbers of ``one`` and of ``two``. Raises DriverError for a
    refused transition.
    """
    steps = _by_step(options)
    for qp, peer, (mine, its) in ((one, two, psns), (two, one, psns[::-1])):
        qp.init(**steps["init"])
        path = qp.node.path_to(peer.node) | dict(steps["rtr"].get("path", ()))
        qp.to_rtr(qpn=peer.qpn, psn=its, **steps["rtr"] | {"path": path})
        qp.to_rts(mine, **steps["rts"])


_RTS_OPTIONS = {"ack_timeout", "log_sra_max", "retry_count", "rnr_retry"}
_INIT_OPTIONS = {"rre", "rwe", "rae", "rlky"}


def _by_step(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options by transition, under the keys "init", "rtr" and "rts".

    All three keys are always present, with an empty dict for a step without options. Options of
    neither INIT nor RTS belong to RTR, also unknown ones.
    """
    steps: dict[str, dict[str, Any]] = {"init": {}, "rtr": {}, "rts": {}}
    for name, value in options.items():
        step = "rts" if name in _RTS_OPTIONS else "init" if name in _INIT_OPTIONS else "rtr"
        steps[step][name] = value
    return steps
