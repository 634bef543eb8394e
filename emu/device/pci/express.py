"""The PCI Express capability, version 2, of an endpoint (PCI Express Base 5.0, 7.5.3).

The capability advertises only what is implemented: function-level reset, and requests for atomic
operations where software allows them, but no active-state power management and no latency tolerance
reporting. The link is always up at its best speed and width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from emu.device.pci.capabilities import Capability
from emu.device.pci.identity import LinkSpeed, PciIdentity
from emu.device.pci.registers import (
    Register,
    RegisterField,
    RegisterWindow,
    dword,
    ro,
    rw,
    w1c,
    word,
)

CAP_ID: Final = 0x10
INITIATE_FLR: Final = 0x8000

_PAYLOAD_512: Final = 2
_READ_REQUEST_512: Final = 2
_TIMEOUT_RANGES_ABC: Final = 0x7
_NO_LIMIT: Final = 7
"""Acceptable exit latency of link power states; the link never enters them."""

_DEVICE_CONTROL: Final = (
    rw("correctable_reporting", 0),
    rw("non_fatal_reporting", 1),
    rw("fatal_reporting", 2),
    rw("unsupported_request_reporting", 3),
    rw("relaxed_ordering", 4, reset=1),
    rw("max_payload_size", 5, 3, sticky=True),
    rw("extended_tag", 8),
    rw("no_snoop", 11, reset=1),
    rw("max_read_request_size", 12, 3, reset=_READ_REQUEST_512),
    rw("initiate_flr", 15),
)

_FIELDS_OF_A_VF: Final[Mapping[str, tuple[RegisterField, ...]]] = {
    "device_control": (rw("initiate_flr", 15),),
    "device_control_2": (),
    "link_control": (),
    "link_status": (),
    "link_control_2": (),
    "link_status_2": (),
}
"""Fields of the registers that are otherwise the physical function's (9.3.5.4 to 9.3.5.12)."""


def express_capability(
    identity: PciIdentity, start_flr: Callable[[], None], *, is_sriov_vf: bool = False
) -> Capability:
    """Return the capability; Initiate Function Level Reset calls ``start_flr``.

    ``start_flr`` has to reset these registers, so that the bit reads as 0 afterwards. A
    function-level reset must leave the sticky fields alone (6.6.2): they describe the link, which
    the function shares with its port. ``is_sriov_vf``: of a virtual function of a physical one,
    which has no settings of its own, and no status of the link.
    """
    registers = (
        word("capabilities", 0x02, ro("version", 0, 4, 2), ro("port_type", 4, 4, 0)),
        *_device_registers(identity, start_flr),
        *_link_registers(identity),
    )
    if is_sriov_vf:
        registers = tuple(
            replace(one, fields=_FIELDS_OF_A_VF.get(one.name, one.fields)) for one in registers
        )
    return Capability("express", CAP_ID, 0x3C, registers)


def _device_registers(identity: PciIdentity, start_flr: Callable[[], None]) -> tuple[Register, ...]:
    """Return the device registers; a write of Initiate FLR to Device Control calls ``start_flr``.

    10-bit tags are supported from 16 GT/s on.
    """
    long_tags = int(
        identity.link_speed >= LinkSpeed.GT_16
    )  # the specification requires it at this speed

    def control_written(regs: RegisterWindow, _before: int) -> None:
        if regs["device_control"] & INITIATE_FLR:
            start_flr()

    return (
        dword(
            "device_capabilities",
            0x04,
            ro("max_payload_size", 0, 3, _PAYLOAD_512),
            ro("extended_tag", 5),
            ro("l0s_latency", 6, 3, _NO_LIMIT),
            ro("l1_latency", 9, 3, _NO_LIMIT),
            ro("role_based_error_reporting", 15),
            ro("function_level_reset", 28),
        ),
        Register(
            "device_control",
            0x08,
            2,
            _DEVICE_CONTROL,
            on_write=control_written,
            trigger=INITIATE_FLR,
        ),
        word(
            "device_status",
            0x0A,
            w1c("correctable_detected", 0),
            w1c("non_fatal_detected", 1),
            w1c("fatal_detected", 2),
            w1c("unsupported_request_detected", 3),
        ),
        dword(
            "device_capabilities_2",
            0x24,
            ro("completion_timeout_ranges", 0, 4, _TIMEOUT_RANGES_ABC),
            ro("completion_timeout_disable", 4),
            ro("ten_bit_tag_completer", 16, value=long_tags),
        ),
        word(
            "device_control_2",
            0x28,
            rw("completion_timeout_value", 0, 4),
            rw("completion_timeout_disable", 4),
            rw("atomic_op_requester", 6),
        ),
    )


def _link_registers(identity: PciIdentity) -> tuple[Register, ...]:
    """Return the link registers: the link is up at the identity's speed and width."""
    speed, width = identity.link_speed, identity.link_width
    retimers = int(speed >= LinkSpeed.GT_16)
    equalized = 0xF if speed >= LinkSpeed.GT_8 else 0
    return (
        dword(
            "link_capabilities",
            0x0C,
            ro("max_speed", 0, 4, speed),
            ro("max_width", 4, 6, width),
            ro("aspm_optionality", 22),
        ),
        word(
            "link_control",
            0x10,
            rw("aspm", 0, 2, sticky=True),
            rw("read_completion_boundary", 3, sticky=True),
            rw("common_clock", 6, sticky=True),
            rw("extended_synch", 7, sticky=True),
        ),
        word(
            "link_status",
            0x12,
            ro("speed", 0, 4, speed),
            ro("width", 4, 6, width),
            ro("slot_clock", 12),
        ),
        dword(
            "link_capabilities_2",
            0x2C,
            ro("speeds", 1, 7, (1 << speed) - 1),
            ro("retimer_presence_detect", 23, value=retimers),
            ro("two_retimers_presence_detect", 24, value=retimers),
        ),
        word("link_control_2", 0x30, rw("target_speed", 0, 4, reset=speed, sticky=True)),
        word("link_status_2", 0x32, ro("equalization", 1, 4, equalized)),
    )
