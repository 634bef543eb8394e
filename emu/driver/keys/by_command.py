"""Keys that a command creates and no work request changes."""

from __future__ import annotations

from collections.abc import Sequence

from emu.driver.keys.umr import ANY_QPN
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import Sge
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.rings.wqe import KLM


def indirect_key(
    node: Endpoint, mode: AccessMode, entries: Sequence[Sge], length: int, **context: object
) -> int:
    """Create a key over ``length`` bytes of other keys, from address 0 on; return the key.

    ``mode`` is KLMS or KSM. Raises DriverError if the command is refused.
    """
    xlt = b"".join(KLM.pack(*entry) for entry in entries)
    answer = node.driver.must(
        Op.CREATE_MKEY,
        memory_key_mkey_entry={
            "pd": node.pdn, "qpn": ANY_QPN, "access_mode_1_0": mode, "len": length,
            "translations_octword_size": len(entries), "lr": 1, "lw": 1, "rr": 1, "rw": 1,
        } | context,
        translations_octword_actual_size=len(entries),
        extra=xlt,
    )  # fmt: skip
    return int(answer.mkey_index) << 8


def dma_key(node: Endpoint) -> int:
    """Return the domain's key over all memory (hw/mr.c: mlx5_ib_get_dma_mr)."""
    return node.driver.create_mkey(node.pdn, rr=0, rw=0) << 8
