"""Flow control of an Ethernet port: pause frames for all traffic (PAUSE) or by priority (PFC).

The port pauses its link partner while the driver has no receive WQEs. The pause frames that the
port sends are never built as bytes. Senders that can wait query the port directly: uplinks, and
functions of this process (``emu.device.engine.eth.rx_credits``). Both ends only count the frames.

MAC control frames from the wire end here, as the MAC is their receiver. The requested pause time is
counted: at most 65,535 times 512 bits, a third of a millisecond at 100 Gb/s. Transmission does not
wait for that time.

A port that has paused its partner for ``critical_ms`` must be stuck and gives up. Frames that
arrive then are lost, and the partners continue.

Source: IEEE 802.3 31 and 31B (PAUSE), IEEE 802.1Q 36 (PFC); PRM "PFCC", "Per priority counters".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from emu.device.port.eth.qos import PRIORITIES

CONTROL_ADDRESS: Final = bytes.fromhex("0180c2000001")
"""Destination address of MAC control frames, which no bridge forwards (IEEE 802.1Q table 8-1)."""
MAC_CONTROL: Final = b"\x88\x08"
"""Ethertype of MAC control frames."""

_TYPE_AT: Final = 12
_PAUSE: Final = 0x0001
_PFC: Final = 0x0101
_ALL: Final = (1 << PRIORITIES) - 1
_OPCODE_AT: Final = 14
_HEADER: Final = Struct(">HH")
"""The opcode, then PAUSE's time or PFC's vector of priorities."""
_TIMES: Final = Struct(f">{PRIORITIES}H")
MAX_CRITICAL_MS: Final = 8000
"""Maximum time that the driver sets (en_ethtool.c: MLX5E_PFC_PREVEN_TOUT_MAX_MSEC). A port without
a setting also gives up after it, so that no partner is stopped for ever."""
_NS_PER_MS: Final = 1_000_000
_QUANTUM_BITS: Final = 512
_NS_PER_BIT_AT_1_MBPS: Final = 1000


def is_control(frame: bytes) -> bool:
    """Return whether the Ethertype marks a MAC control frame, such as a pause frame.

    The MAC's client does not get such a frame, for any address (IEEE 802.3 31.5.2, 30.3.4).
    """
    return frame.startswith(MAC_CONTROL, _TYPE_AT)


def _zeros() -> list[int]:
    return [0] * PRIORITIES


@dataclass(slots=True)
class Pauses:
    """Counters of one direction since power-on."""

    control: int = 0
    """Number of MAC control frames."""
    global_: int = 0
    """Number of PAUSE frames among them."""
    frames: list[int] = field(default_factory=_zeros)
    """Frames by affected priority; PAUSE affects all."""
    duration_ns: list[int] = field(default_factory=_zeros)
    """Total pause time of each priority."""

    def count(self, *, is_pause: bool, pfc: int, waited_ns: int) -> None:
        """Count a frame that pauses or resumes priorities: PAUSE, or PFC for ``pfc``.

        ``waited_ns`` is the time that a resuming frame ends, 0 for a pausing one. PAUSE counts for
        every priority.
        """
        self.control += 1
        self.global_ += is_pause
        for priority in _priorities(_ALL if is_pause else pfc):
            self.frames[priority] += 1
            self.duration_ns[priority] += waited_ns


@dataclass(slots=True)
class ReceivedPauses(Pauses):
    """Counters of received frames, and the pause state of the port."""

    unknown: int = 0
    """Number of MAC control frames with an unknown opcode or another address."""
    transitions: list[int] = field(default_factory=_zeros)
    """Number of transitions of each priority from running to paused."""
    until_ns: list[int] = field(default_factory=_zeros)
    """End of each priority's pause."""

    def stop(self, priority: int, now_ns: int, time_ns: int) -> None:
        """Pause a priority for ``time_ns`` from now on; 0 resumes it.

        A new time replaces the old one. Counts the pause time and, unless already paused, a
        transition.
        """
        until = self.until_ns[priority]
        if time_ns and until <= now_ns:
            self.transitions[priority] += 1
        self.duration_ns[priority] += now_ns + time_ns - max(now_ns, until)
        self.until_ns[priority] = now_ns + time_ns


@dataclass(slots=True)
class FlowControl:
    """The driver's settings (PFCC), and the counters."""

    pause_tx: bool = True
    pause_rx: bool = True
    """Whether PAUSE frames are sent, and obeyed: both, as in the firmware's defaults."""
    pfc_tx: int = 0
    pfc_rx: int = 0
    """PFC frames that are sent, and obeyed, with a bit for each priority."""
    critical_ms: int = 1000
    """Maximum time that the port pauses others (device_stall_critical_watermark). Real adapters
    default to eight times as long."""
    minor_ms: int = 800
    """Pause time above which a warning is counted (device_stall_minor_watermark)."""
    warnings: int = 0
    """Number of pauses above ``minor_ms``."""
    storms: int = 0
    """Number of pauses that reached ``critical_ms``."""
    sent: Pauses = field(default_factory=Pauses)
    received: ReceivedPauses = field(default_factory=ReceivedPauses)

    @property
    def holds_up(self) -> bool:
        """Whether the link partner waits when the driver has no receive WQEs."""
        return self.pause_tx or bool(self.pfc_tx)

    @property
    def patience_ns(self) -> int:
        """Maximum time that others wait."""
        return (self.critical_ms or MAX_CRITICAL_MS) * _NS_PER_MS

    def waits_for(self, link_partner: FlowControl, priority: int) -> bool:
        """Return whether transmission with a priority waits when the partner's port requests it.

        True if this port obeys PAUSE and the partner's port sends it, or both do so with PFC for
        the priority.
        """
        if self.pause_rx and link_partner.pause_tx:
            return True
        return bool(self.pfc_rx & link_partner.pfc_tx & 1 << priority)

    def receive_control(self, frame: bytes, now_ns: int, speed: int) -> None:
        """Process a received MAC control frame: count it, and pause priorities that the port obeys.

        ``speed`` of the link is in Mb/s. A frame to another address, too short or with an unknown
        opcode counts as ``unknown`` only. PAUSE and PFC count by priority even where they are not
        obeyed.
        """
        received = self.received
        received.control += 1
        is_for_us = frame.startswith(CONTROL_ADDRESS)
        if not is_for_us or len(frame) < _OPCODE_AT + _HEADER.size + _TIMES.size:
            received.unknown += 1
            return
        opcode, value = _HEADER.unpack_from(frame, _OPCODE_AT)
        if opcode == _PAUSE:
            received.global_ += 1
            self._stop(_ALL, _ALL * self.pause_rx, (value,) * PRIORITIES, now_ns, speed)
        elif opcode == _PFC:
            times = _TIMES.unpack_from(frame, _OPCODE_AT + _HEADER.size)
            self._stop(value & _ALL, self.pfc_rx, times, now_ns, speed)
        else:
            received.unknown += 1

    def _stop(
        self, about: int, obeyed: int, times: tuple[int, ...], now_ns: int, speed: int
    ) -> None:
        """Count a frame for the priorities in ``about``, and pause those also in ``obeyed``.

        ``times`` are in quanta of 512 bit times; a time of 0 resumes the priority.
        """
        for priority in _priorities(about):
            self.received.frames[priority] += 1
            if obeyed >> priority & 1:
                time_ns = times[priority] * _QUANTUM_BITS * _NS_PER_BIT_AT_1_MBPS // speed
                self.received.stop(priority, now_ns, time_ns)

    def count_pause_sent(self) -> None:
        """Count the frame that pauses the link partner; no frame is sent."""
        self._count_sent(0)

    def count_resume_sent(self, waited_ns: int) -> None:
        """Count the frame that resumes the link partner after ``waited_ns``; no frame is sent.

        A pause above ``minor_ms`` counts in ``warnings``.
        """
        self._count_sent(waited_ns)
        self.warnings += waited_ns > self.minor_ms * _NS_PER_MS

    def count_storm(self, waited_ns: int) -> None:
        """Count a pause that lasted too long, in ``storms`` too; the partner then resumes."""
        self.count_resume_sent(waited_ns)
        self.storms += 1

    def count_pause_received(self) -> None:
        """Count the frame by which the partner pauses the port; the caller stops sending."""
        self._count_received(0)
        for priority in _priorities(_ALL if self.pause_rx else self.pfc_rx):
            self.received.transitions[priority] += 1

    def count_resume_received(self, waited_ns: int) -> None:
        """Count the frame that resumes the port after ``waited_ns``; the caller sends again."""
        self._count_received(waited_ns)

    def _count_sent(self, waited_ns: int) -> None:
        self.sent.count(is_pause=self.pause_tx, pfc=self.pfc_tx, waited_ns=waited_ns)

    def _count_received(self, waited_ns: int) -> None:
        self.received.count(is_pause=self.pause_rx, pfc=self.pfc_rx, waited_ns=waited_ns)


def _priorities(mask: int) -> list[int]:
    return [priority for priority in range(PRIORITIES) if mask >> priority & 1]
