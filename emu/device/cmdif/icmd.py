"""Register access by tools and boot firmware, through the gateway in configuration space.

The mailbox holds an operation TLV (register, read or write), then the register TLV. The ACCESS_REG
command answers, so every path to a register reaches the same register. The gateway works before and
after a driver has enabled the HCA.

Source: mlx_reg_access.c of iPXE; reg_access and mtcr_ul of mstflint, which name the statuses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from emu.device.cmdif.registry import Command
from emu.device.errors import CmdError
from layouts.enums.cmd import Op
from layouts.icmd import icmd_query_cap_general, operation_tlv, reg_tlv
from layouts.regs.reg import access_register_in, access_register_out

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

QUERY_CAP: Final = 0x8400
FLASH_REG_ACCESS: Final = 0x9001

_CAPABILITIES: Final = bytes(
    icmd_query_cap_general.new(allow_icmd_access_reg_on_all_registers=1, mcam_reg=1).buf
)
_OPERATION: Final = 1
_REGISTER: Final = 3
"""Types of the two TLVs."""
_OPERATION_WORDS: Final = 4
_REGISTER_AT: Final = operation_tlv.size
_DATA_AT: Final = operation_tlv.size + reg_tlv.size


class IcmdStatus(IntEnum):
    """Results of the ICMD interface itself."""

    OK = 0
    INVALID_OPCODE = 1
    OPERATIONAL_ERROR = 3


class AccessStatus(IntEnum):
    """Results of a register access, in the status of its operation TLV."""

    OK = 0
    UNKNOWN_TLV = 3
    METHOD_NOT_SUPPORTED = 6
    BAD_PARAM = 7


_OP_MOD: Final = {1: 1, 2: 0}
"""op_mod of ACCESS_REG by the operation's method: 1 reads (op_mod 1), 2 writes (op_mod 0)."""


class ToolCommands:
    """Implements :class:`emu.device.pci.icmd.Icmd` for the function that has this HCA."""

    def __init__(self, commands: Mapping[int, Command], hca: Callable[[], Hca]) -> None:
        self._commands = commands
        self._hca = hca

    def run(self, opcode: int, mailbox: bytearray) -> int:
        """Run FLASH_REG_ACCESS or QUERY_CAP in ``mailbox`` and return an IcmdStatus.

        INVALID_OPCODE for any other opcode, OPERATIONAL_ERROR of a function that has failed, with
        no change. FLASH_REG_ACCESS otherwise returns OK: the result of the access is an
        AccessStatus in the operation TLV, whose ``r`` bit is set. QUERY_CAP reports access to every
        register.
        """
        if self._hca().health.has_failed:
            return IcmdStatus.OPERATIONAL_ERROR
        if opcode == QUERY_CAP:
            mailbox[: icmd_query_cap_general.size] = _CAPABILITIES
            return IcmdStatus.OK
        if opcode != FLASH_REG_ACCESS:
            log.debug("ICMD opcode %#x is not supported", opcode)
            return IcmdStatus.INVALID_OPCODE
        operation = operation_tlv.view(mailbox)
        operation.status = self._access(operation, mailbox)
        operation.r = 1
        return IcmdStatus.OK

    def _access(self, operation: operation_tlv, mailbox: bytearray) -> AccessStatus:
        """Access the register that the TLVs in the mailbox name, and return an AccessStatus.

        OK: the register's bytes have replaced the data. UNKNOWN_TLV for wrong types or lengths of
        the TLVs; METHOD_NOT_SUPPORTED for neither read nor write. BAD_PARAM for data beyond the
        mailbox and for a refusal by ACCESS_REG.
        """
        part = reg_tlv.view(mailbox, _REGISTER_AT)
        size = part.len * 4 - reg_tlv.size
        shape = (operation.type, operation.len, part.type)
        if shape != (_OPERATION, _OPERATION_WORDS, _REGISTER) or not size > 0:
            return AccessStatus.UNKNOWN_TLV
        if _DATA_AT + size > len(mailbox):
            return AccessStatus.BAD_PARAM
        if operation.method not in _OP_MOD:
            return AccessStatus.METHOD_NOT_SUPPORTED
        data = bytes(mailbox[_DATA_AT : _DATA_AT + size])
        try:
            result = self._run(operation.register_id, _OP_MOD[operation.method], data)
        except CmdError as error:
            log.debug("register %#x by ICMD: %s", operation.register_id, error)
            return AccessStatus.BAD_PARAM
        mailbox[_DATA_AT : _DATA_AT + size] = result
        return AccessStatus.OK

    def _run(self, register_id: int, op_mod: int, data: bytes) -> bytes:
        """Run ACCESS_REG and return the register's bytes, of the same length as ``data``.

        Raises the handler's CmdError. The checks of :func:`emu.device.cmdif.request.dispatch` are
        skipped, so any state of the HCA is allowed.
        """
        size = access_register_in.size
        request = access_register_in.view(bytearray(size) + data)
        request.opcode, request.op_mod, request.register_id = Op.ACCESS_REG, op_mod, register_id
        response = access_register_out.new(len(data))
        self._commands[Op.ACCESS_REG].handler(self._hca(), request, response)
        return bytes(response.buf[access_register_out.size :])
