"""Headers of messages with matched tags, at the start of a SEND's data.

Source: rdma-core, Documentation/tag_matching.md; libibverbs/tm_types.h.
"""

from __future__ import annotations

from enum import IntEnum

from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the document's figures.
# fmt: off

class tmh(Prm): opcode = bits(8); _ = rsvd(24); app_ctx = bits(32); tag = bits(64)
class rvh(Prm): va = bits(64); rkey = bits(32); len = bits(32)

# fmt: on

TMH = tmh.packer("opcode", "app_ctx", "tag")
RVH = rvh.packer("va", "rkey", "len")

RNDV_BYTES = tmh.size + rvh.size
"""Size in bytes of both headers of a rendezvous request; the sender's own data follow."""
MAX_RNDV_BYTES = 64
"""Maximum size in bytes of such a request (ib/mlx5_ib.h: MLX5_TM_MAX_RNDV_MSG_SIZE)."""


class TmhOp(IntEnum):
    """Values of tmh.opcode (IBV_TMH_*)."""

    NO_TAG = 0
    RNDV = 1
    FIN = 2
    EAGER = 3
