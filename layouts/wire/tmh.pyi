# Written by scripts/gen-view-types from tmh.py; a test fails when it is stale.

from enum import IntEnum
from struct import Struct
from typing import Final

from layouts.codec import View
from layouts.prm import Prm

TMH: Struct
RVH: Struct
RNDV_BYTES: Final = 32
MAX_RNDV_BYTES: Final = 64

class Tmh(View):
    opcode: int
    app_ctx: int
    tag: int

tmh: Prm[Tmh]

class Rvh(View):
    va: int
    rkey: int
    len: int

rvh: Prm[Rvh]

class TmhOp(IntEnum):
    """Values of tmh.opcode (IBV_TMH_*)."""

    NO_TAG = 0
    RNDV = 1
    FIN = 2
    EAGER = 3
