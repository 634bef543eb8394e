"""Flow control of an Ethernet port: pause frames for all traffic (PAUSE) or by priority (PFC).

The port asks its link partner to wait while the driver has no receive requests. The frames that it
sends for that never take the form of bytes: whoever feeds the port and can wait asks it directly
(uplinks do, and functions of this process: ``emu.device.engine.eth.rx_credits``), and the frames
are only counted at both ends. MAC control frames that come by the wire end here, as the MAC is
their receiver. How long they ask the port to wait is counted; at most it is 65,535 times 512 bits,
a third of a millisecond at 100 Gb/s, and nothing that is sent waits for that.

A port that has asked for so long that it must be stuck gives up (``critical_ms``): what comes then
is lost, and the others go on.

Source: IEEE 802.3 31 and 31B (PAUSE), IEEE 802.1Q 36 (PFC); PRM "PFCC", "Per priority counters".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from emu.device.port.eth.qos import PRIORITIES

CONTROL_ADDRESS: Final = bytes.fromhex("0180c2000001")
"""Where MAC control frames go. No bridge forwards it (IEEE 802.1Q table 8-1)."""
MAC_CONTROL: Final = b"\x88\x08"
"""Their Ethernet type."""

_TYPE_AT: Final = 12
_PAUSE: Final = 0x0001
_PFC: Final = 0x0101
_ALL: Final = (1 << PRIORITIES) - 1
_OPCODE_AT: Final = 14
_HEADER: Final = Struct(">HH")
"""The opcode, then PAUSE's time or PFC's vector of priorities."""
_TIMES: Final = Struct(f">{PRIORITIES}H")
MAX_CRITICAL_MS: Final = 8000
"""The longest time that the driver sets (en_ethtool.c: MLX5E_PFC_PREVEN_TOUT_MAX_MSEC). A port
whose driver sets none gives up after it, lest it stop others for ever."""
_NS_PER_MS: Final = 1_000_000
_QUANTUM_BITS: Final = 512
_NS_PER_BIT_AT_1_MBPS: Final = 1000


def is_control(frame: bytes) -> bool:
    """Whether a frame is for the MAC of the port, as pause frames are: by its type alone.

    Its client does not get such a frame, whatever the address (IEEE 802.3 31.5.2, 30.3.4).
    """
    return frame.startswith(MAC_CONTROL, _TYPE_AT)


def _zeros() -> list[int]:
    return [0] * PRIORITIES


@dataclass(slots=True)
class Pauses:
    """What was counted one way since power-on."""

    control: int = 0
    """MAC control frames."""
    global_: int = 0
    """PAUSE frames among them."""
    frames: list[int] = field(default_factory=_zeros)
    """Frames by the priority that they are about; PAUSE is about all."""
    duration_ns: list[int] = field(default_factory=_zeros)
    """For how long each priority had to wait."""

    def count(self, *, is_pause: bool, pfc: int, waited_ns: int) -> None:
        """Count a frame that stops priorities or lets them go on: PAUSE, or PFC for ``pfc``."""
        self.control += 1
        self.global_ += is_pause
        for priority in _priorities(_ALL if is_pause else pfc):
            self.frames[priority] += 1
            self.duration_ns[priority] += waited_ns


@dataclass(slots=True)
class ReceivedPauses(Pauses):
    """What has come, and what it does to the port."""

    unknown: int = 0
    """MAC control frames with another opcode than PAUSE and PFC, or for another address."""
    transitions: list[int] = field(default_factory=_zeros)
    """How often a priority that might send was stopped."""
    until_ns: list[int] = field(default_factory=_zeros)
    """Until when a priority is stopped."""

    def stop(self, priority: int, now_ns: int, time_ns: int) -> None:
        """A frame stops a priority for so long from now on; 0 lets it go on."""
        until = self.until_ns[priority]
        if time_ns and until <= now_ns:
            self.transitions[priority] += 1
        self.duration_ns[priority] += now_ns + time_ns - max(now_ns, until)
        self.until_ns[priority] = now_ns + time_ns


@dataclass(slots=True)
class FlowControl:
    """What the driver has chosen (PFCC), and what was counted."""

    pause_tx: bool = True
    pause_rx: bool = True
    """Whether PAUSE frames are sent, and obeyed: both, as the firmware's default is."""
    pfc_tx: int = 0
    pfc_rx: int = 0
    """The same for PFC frames, a bit for each priority."""
    critical_ms: int = 1000
    """For how long the port asks others to wait at most (device_stall_critical_watermark). Real
    adapters begin with eight times as long."""
    minor_ms: int = 800
    """What is longer than that is counted as a warning (device_stall_minor_watermark)."""
    warnings: int = 0
    """How often it has asked for longer than that."""
    storms: int = 0
    """How often it has given up."""
    sent: Pauses = field(default_factory=Pauses)
    received: ReceivedPauses = field(default_factory=ReceivedPauses)

    @property
    def holds_up(self) -> bool:
        """Whether the link partner waits when the driver has no receive requests."""
        return self.pause_tx or bool(self.pfc_tx)

    @property
    def patience_ns(self) -> int:
        """For how long others wait."""
        return (self.critical_ms or MAX_CRITICAL_MS) * _NS_PER_MS

    def waits_for(self, partner: FlowControl, priority: int) -> bool:
        """Whether what is sent with a priority waits when the partner's port asks for it."""
        if self.pause_rx and partner.pause_tx:
            return True
        return bool(self.pfc_rx & partner.pfc_tx & 1 << priority)

    def take(self, frame: bytes, now_ns: int, speed: int) -> None:
        """Count a MAC control frame that has come in; ``speed`` of the link in Mb/s."""
        came = self.received
        came.control += 1
        is_for_us = frame.startswith(CONTROL_ADDRESS)
        if not is_for_us or len(frame) < _OPCODE_AT + _HEADER.size + _TIMES.size:
            came.unknown += 1
            return
        opcode, value = _HEADER.unpack_from(frame, _OPCODE_AT)
        if opcode == _PAUSE:
            came.global_ += 1
            self._stop(_ALL, _ALL * self.pause_rx, (value,) * PRIORITIES, now_ns, speed)
        elif opcode == _PFC:
            times = _TIMES.unpack_from(frame, _OPCODE_AT + _HEADER.size)
            self._stop(value & _ALL, self.pfc_rx, times, now_ns, speed)
        else:
            came.unknown += 1

    def _stop(
        self, about: int, obeyed: int, times: tuple[int, ...], now_ns: int, speed: int
    ) -> None:
        for priority in _priorities(about):
            self.received.frames[priority] += 1
            if obeyed >> priority & 1:
                time_ns = times[priority] * _QUANTUM_BITS * _NS_PER_BIT_AT_1_MBPS // speed
                self.received.stop(priority, now_ns, time_ns)

    def ask_to_wait(self) -> None:
        """Count the frame that stops the link partner."""
        self._count_sent(0)

    def let_go_on(self, waited_ns: int) -> None:
        """Count the frame by which it may go on, after so long."""
        self._count_sent(waited_ns)
        self.warnings += waited_ns > self.minor_ms * _NS_PER_MS

    def give_up(self, waited_ns: int) -> None:
        """Count that the port has asked for too long: the partner goes on, and frames are lost."""
        self.let_go_on(waited_ns)
        self.storms += 1

    def pause_received(self) -> None:
        """Count the frame by which the partner stops the port."""
        self._count_received(0)
        for priority in _priorities(_ALL if self.pause_rx else self.pfc_rx):
            self.received.transitions[priority] += 1

    def resume_received(self, waited_ns: int) -> None:
        """Count the frame by which the port may go on, after so long."""
        self._count_received(waited_ns)

    def _count_sent(self, waited_ns: int) -> None:
        self.sent.count(is_pause=self.pause_tx, pfc=self.pfc_tx, waited_ns=waited_ns)

    def _count_received(self, waited_ns: int) -> None:
        self.received.count(is_pause=self.pause_rx, pfc=self.pfc_rx, waited_ns=waited_ns)


def _priorities(mask: int) -> list[int]:
    return [priority for priority in range(PRIORITIES) if mask >> priority & 1]
