"""Messages between the host and the program inside the guest, over one virtio-serial port.

Both ends use this file. Imports are few, without dataclasses: importing those alone costs a guest
on emulated processors a tenth of a second at each boot.

A frame is a header (kind, command number, payload length; big-endian) and the payload. A reboot can
truncate a frame. Each side therefore ignores its input until the other's HELLO, which begins with a
mark that occurs nowhere else.
"""

from __future__ import annotations

import struct

HEADER = struct.Struct(">BHI")
MAX_PAYLOAD = 1 << 20
CHUNK = 32 * 1024  # bytes of one write to a virtio-serial port (virtio_console.c)
WINDOW = 256 * 1024  # bytes of standard input in flight, which the guest has to buffer
MARK = bytes.fromhex("9f6d6c7835656d75e3c0d1b47a925f08")

HELLO = 1  # both ways: MARK; from the guest also its kernel's release
RUN = 2  # to the guest: encode_command()
STDIN = 3  # to the guest: data, empty for the end
SIGNAL = 4  # to the guest: one byte, the signal
POWER = 5  # to the guest: b"reboot" or b"poweroff"
PING = 6  # to the guest, which answers with PONG
STDOUT = 7
STDERR = 8
EXIT = 9  # from the guest: one byte, the status as a shell gives it
CREDIT = 10  # from the guest: bytes consumed of STDIN, or for command 0 of a serial line
PONG = 11
BYE = 12  # from the guest: nothing follows before the next HELLO
PAUSE = 14  # to the guest: one byte, 1 to stop reading the command's output, 0 to resume
PARKED = 17  # from a guest that can be saved: MARK; options follow (runner.await_options)
CLOCK = 15  # both ways: encode_clock(), for the guest's kernel log; the guest echoes it
ASK = 16  # to an exec server: JSON, a request to it; answered like a command
FAILED = 13  # from an exec server: JSON, why the command has no exit status

_COUNT = struct.Struct(">I")
_CLOCK = struct.Struct(">Q")


class ChannelFrameError(ValueError):
    """Bytes that are not a frame, or a malformed payload."""


class ChannelFrame:
    """One message; ``job`` is the number of the command it belongs to, 0 for none."""

    __slots__ = ("job", "kind", "payload")

    def __init__(self, kind: int, job: int, payload: bytes) -> None:
        self.kind = kind
        self.job = job
        self.payload = payload


def encode(kind: int, job: int = 0, payload: bytes = b"") -> bytes:
    """Return the bytes of a frame; ChannelFrameError for a payload above MAX_PAYLOAD (1 MiB)."""
    if len(payload) > MAX_PAYLOAD:
        raise ChannelFrameError(f"payload of {len(payload)} bytes; at most {MAX_PAYLOAD} fit")
    return HEADER.pack(kind, job, len(payload)) + payload


def encode_count(count: int) -> bytes:
    """Encode the payload of CREDIT."""
    return _COUNT.pack(count)


def decode_count(payload: bytes) -> int:
    """Return the count of :func:`encode_count`; ChannelFrameError for another length."""
    if len(payload) != _COUNT.size:
        raise ChannelFrameError(f"a count of {len(payload)} bytes")
    return int(_COUNT.unpack(payload)[0])


def encode_clock(ns: int) -> bytes:
    """Encode the payload of CLOCK: the host's monotonic clock in nanoseconds."""
    return _CLOCK.pack(ns)


def decode_clock(payload: bytes) -> int:
    """Return the nanoseconds of :func:`encode_clock`; ChannelFrameError for another length."""
    if len(payload) != _CLOCK.size:
        raise ChannelFrameError(f"a clock of {len(payload)} bytes")
    return int(_CLOCK.unpack(payload)[0])


def encode_command(argv: list[str], environ: list[str], has_input: bool) -> bytes:
    """Return the payload of RUN: arguments, ``NAME=VALUE`` environment, whether STDIN follows."""
    parts = [bytes([has_input])]
    for words in (argv, environ):
        parts.append(_COUNT.pack(len(words)))
        for word in words:
            raw = word.encode("utf-8", "surrogateescape")
            parts += [_COUNT.pack(len(raw)), raw]
    return b"".join(parts)


def decode_command(payload: bytes) -> tuple[list[str], list[str], bool]:
    """Return arguments, ``NAME=VALUE`` environment and "STDIN follows" of :func:`encode_command`.

    Raises :class:`ChannelFrameError` when the payload ends early or has bytes left over.
    """
    at = 1
    lists: list[list[str]] = []
    try:
        for _ in range(2):
            (count,) = _COUNT.unpack_from(payload, at)
            at += _COUNT.size
            words = []
            for _ in range(count):
                (length,) = _COUNT.unpack_from(payload, at)
                at += _COUNT.size + length
                if at > len(payload):
                    raise ChannelFrameError("a command that ends early")
                words.append(payload[at - length : at].decode("utf-8", "surrogateescape"))
            lists.append(words)
    except struct.error:
        raise ChannelFrameError("a command that ends early") from None
    if at != len(payload):
        raise ChannelFrameError("bytes after a command")
    return lists[0], lists[1], payload[0] != 0


class FrameDecoder:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._hunting = True

    def hunt(self) -> None:
        """Drop everything up to the other side's next HELLO."""
        self._hunting = True

    def feed(self, data: bytes) -> list[ChannelFrame]:
        """Add ``data`` to the stream; return the frames that are now complete.

        Before the first HELLO, and after :meth:`hunt`, everything up to the next HELLO is dropped.
        Raises :class:`ChannelFrameError` for a length above MAX_PAYLOAD.
        """
        self._buffer += data
        if self._hunting and not self._found_hello():
            return []
        frames = []
        while len(self._buffer) >= HEADER.size:
            kind, job, length = HEADER.unpack_from(self._buffer)
            if length > MAX_PAYLOAD:
                raise ChannelFrameError(f"a frame of {length} bytes")
            end = HEADER.size + length
            if len(self._buffer) < end:
                break
            frames.append(ChannelFrame(kind, job, bytes(self._buffer[HEADER.size : end])))
            del self._buffer[:end]
        return frames

    def _found_hello(self) -> bool:
        """Drop the bytes before the next HELLO; return whether one with its mark has arrived.

        On success the decoder stops hunting, and the HELLO stays in the buffer.
        """
        at = self._buffer.find(MARK)
        while at >= 0:
            start = at - HEADER.size
            if start >= 0 and self._buffer[start] == HELLO:
                del self._buffer[:start]
                self._hunting = False
                return True
            at = self._buffer.find(MARK, at + 1)
        # Keep what could be the beginning of an incomplete HELLO.
        del self._buffer[: max(0, len(self._buffer) - HEADER.size - len(MARK) + 1)]
        return False
