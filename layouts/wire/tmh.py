"""Headers of messages whose tags are matched: they begin a SEND's data.

Source: rdma-core, Documentation/tag_matching.md; libibverbs/tm_types.h.
"""

from __future__ import annotations

from enum import IntEnum

from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the document's figures.
# fmt: off

tmh = Prm("tmh", "opcode" / bits(8), rsvd(24), "app_ctx" / bits(32), "tag" / bits(64))
rvh = Prm("rvh", "va" / bits(64), "rkey" / bits(32), "len" / bits(32))

# fmt: on

TMH = tmh.packer("opcode", "app_ctx", "tag")
RVH = rvh.packer("va", "rkey", "len")

RNDV_BYTES = tmh.size + rvh.size
"""Both headers of a rendezvous request; the sender's own data follow."""
MAX_RNDV_BYTES = 64
"""All of such a request, at most (ib/mlx5_ib.h: MLX5_TM_MAX_RNDV_MSG_SIZE)."""


class TmhOp(IntEnum):
    """tmh.opcode (IBV_TMH_*)."""

    NO_TAG = 0
    RNDV = 1
    FIN = 2
    EAGER = 3
