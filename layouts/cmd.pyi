# Written by scripts/gen-view-types from cmd.py; a test fails when it is stale.

from typing import Any, Final

from layouts.codec import View
from layouts.fields import Octets
from layouts.prm import Prm

INLINE_BYTES: Final = 16
MAILBOX_DATA_BYTES: Final = 512
CMD_TYPE_PCIE: Final = 7
CMD_IN: tuple[Any, ...]
CMD_IN_NO_UID: tuple[Any, ...]
CMD_OUT: tuple[Any, ...]

class CmdLayout(View):
    type: int
    inlen: int
    in_ptr: int
    out: Octets
    out_ptr: int
    outlen: int
    token: int
    sig: int
    status_own: int

cmd_layout: Prm[CmdLayout]

class CmdProtBlock(View):
    data: Octets
    next: int
    block_num: int
    token: int
    ctrl_sig: int
    sig: int

cmd_prot_block: Prm[CmdProtBlock]
