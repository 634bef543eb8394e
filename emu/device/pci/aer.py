"""Advanced Error Reporting (PCI Express Base 5.0, 7.8.4), and the recording of errors in it.

vfio-user carries no error messages, so a guest detects an error only when it reads these registers
or Device Status.
"""

from __future__ import annotations

from collections.abc import Set
from enum import IntEnum
from functools import cache
from typing import Final

from emu.device.pci.capabilities import ExtendedCapability
from emu.device.pci.registers import RegisterField, RegisterWindow, WriteEffect, dword, rw, w1c

CAP_ID: Final = 0x0001

_CORRECTABLE_DETECTED: Final = 1 << 0
_NON_FATAL_DETECTED: Final = 1 << 1
_FATAL_DETECTED: Final = 1 << 2
_UNSUPPORTED_REQUEST_DETECTED: Final = 1 << 3
_POINTER_MASK: Final = 0x1F


class Correctable(IntEnum):
    """Bits of Correctable Error Status (7.8.4.5)."""

    RECEIVER_ERROR = 0
    BAD_TLP = 6
    BAD_DLLP = 7
    REPLAY_NUM_ROLLOVER = 8
    REPLAY_TIMER_TIMEOUT = 12
    ADVISORY_NON_FATAL = 13
    CORRECTED_INTERNAL = 14


class Uncorrectable(IntEnum):
    """Bits of Uncorrectable Error Status (7.8.4.2)."""

    DATA_LINK_PROTOCOL = 4
    POISONED_TLP = 12
    FLOW_CONTROL_PROTOCOL = 13
    COMPLETION_TIMEOUT = 14
    COMPLETER_ABORT = 15
    UNEXPECTED_COMPLETION = 16
    RECEIVER_OVERFLOW = 17
    MALFORMED_TLP = 18
    UNSUPPORTED_REQUEST = 20
    UNCORRECTABLE_INTERNAL = 22


# Reset values: 7.8.4.3, 7.8.4.4 and 7.8.4.6.
_FATAL: Final = frozenset(
    {
        Uncorrectable.DATA_LINK_PROTOCOL,
        Uncorrectable.FLOW_CONTROL_PROTOCOL,
        Uncorrectable.RECEIVER_OVERFLOW,
        Uncorrectable.MALFORMED_TLP,
        Uncorrectable.UNCORRECTABLE_INTERNAL,
    }
)
_MASKED: Final = frozenset({Uncorrectable.UNCORRECTABLE_INTERNAL})
_CORRECTABLE_MASKED: Final = frozenset(
    {Correctable.ADVISORY_NON_FATAL, Correctable.CORRECTED_INTERNAL}
)


@cache
def aer_capability() -> ExtendedCapability:
    """Return the capability, version 1, without ECRC; the header log stays empty.

    Status, mask, severity and first error pointer survive a function-level reset.
    """
    return ExtendedCapability(
        "aer",
        CAP_ID,
        1,
        0x2C,
        (
            dword("uncorrectable_status", 0x04, *_status(Uncorrectable)),
            dword("uncorrectable_mask", 0x08, *_setting(Uncorrectable, _MASKED)),
            dword("uncorrectable_severity", 0x0C, *_setting(Uncorrectable, _FATAL)),
            dword("correctable_status", 0x10, *_status(Correctable)),
            dword("correctable_mask", 0x14, *_setting(Correctable, _CORRECTABLE_MASKED)),
            dword("control", 0x18, RegisterField("first_error", 0, 5, WriteEffect.RO, sticky=True)),
        ),
    )


def _status(errors: type[IntEnum]) -> list[RegisterField]:
    return [w1c(error.name.lower(), error, sticky=True) for error in errors]


def _setting(errors: type[IntEnum], ones: Set[IntEnum]) -> list[RegisterField]:
    return [rw(e.name.lower(), e, reset=int(e in ones), sticky=True) for e in errors]


def record_error(
    aer: RegisterWindow, express: RegisterWindow, *, correctable: bool, status_bit: int
) -> None:
    """Record an error like the function that detects it (6.2.4.1, 6.2.5).

    Sets the status bit in AER and the matching bits of Device Status. An unmasked uncorrectable
    error also sets the first error pointer, unless an unmasked one is already recorded. A mask
    suppresses the error message, not the status bit. Raises ValueError for a bit that the status
    register does not have.
    """
    errors = Correctable if correctable else Uncorrectable
    if status_bit not in list(errors):
        raise ValueError(f"no {errors.__name__.lower()} error has bit {status_bit}")
    if correctable:
        express["device_status"] |= _CORRECTABLE_DETECTED
        aer["correctable_status"] |= 1 << status_bit
        return
    fatal = aer["uncorrectable_severity"] >> status_bit & 1
    express["device_status"] |= _FATAL_DETECTED if fatal else _NON_FATAL_DETECTED
    if status_bit == Uncorrectable.UNSUPPORTED_REQUEST:
        express["device_status"] |= _UNSUPPORTED_REQUEST_DETECTED
    unmasked = ~aer["uncorrectable_mask"]
    if unmasked >> status_bit & 1 and not aer["uncorrectable_status"] & unmasked:
        aer["control"] = aer["control"] & ~_POINTER_MASK | status_bit
    aer["uncorrectable_status"] |= 1 << status_bit
