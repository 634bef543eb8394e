"""The command line's syntax for an uplink: ``KIND[=WHAT][,KEY=VALUE]...``.

Examples: ``user`` (passt), ``user,mtu=9000,forward=tcp:8080:80``, ``stream=PATH``, ``tap=NAME``.
Every uplink and every Ethernet function is on segment 0, unless ``segment=N`` says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from emu.host.user_error import UserError
from emu.server.net.eth.passt import DEFAULT_MTU
from emu.server.net.eth.tap import MAX_NAME

MAX_SEGMENT = 255
_MTU = range(1280, 65521)
"""From IPv6's minimum MTU to passt's maximum."""
_FORWARD = re.compile(r"(tcp|udp):(?:([0-9a-fA-F.]+|\[[0-9a-fA-F:.]+\])/)?(\d{1,5}):(\d{1,5})")
_OPTION = {"tcp": "--tcp-ports", "udp": "--udp-ports"}


class NetSpecError(UserError):
    """An invalid ``--net``; the text names the wrong setting."""


@dataclass(frozen=True, slots=True)
class NetSpec:
    """An uplink, and its segment."""

    kind: str
    """``user``, ``stream`` or ``tap``."""
    what: str = ""
    """Path of a stream's socket, or name of a TAP device."""
    segment: int = 0
    mtu: int = DEFAULT_MTU
    forwards: tuple[tuple[str, str], ...] = ()
    """Options of passt that forward a port of the host to the guest."""

    @property
    def passt_options(self) -> list[str]:
        """The options of passt for MTU and forwards."""
        forwards = [word for option in self.forwards for word in option]
        return ["--mtu", str(self.mtu), *forwards]


def parse(text: str) -> NetSpec:
    """Return the uplink that a ``--net`` text describes.

    Raises NetSpecError for an unknown kind or setting, a missing or superfluous WHAT, a bad TAP
    name, and a number out of range. ``mtu`` and ``forward`` are settings of ``user`` only.
    """
    head, *settings = text.split(",")
    kind, _, what = head.partition("=")
    if kind not in ("user", "stream", "tap") or (kind == "user") is bool(what):
        raise NetSpecError(f"--net {head!r}: use user, stream=PATH or tap=NAME")
    if kind == "tap" and (len(what.encode()) > MAX_NAME or not what.isprintable() or "/" in what):
        raise NetSpecError(f"--net {head!r}: a name has 1 to {MAX_NAME} bytes and no slash")
    segment, mtu, forwards = 0, DEFAULT_MTU, []
    for setting in settings:
        key, _, value = setting.partition("=")
        if key == "segment":
            segment = _number(text, setting, value, range(MAX_SEGMENT + 1))
        elif key == "mtu" and kind == "user":
            mtu = _number(text, setting, value, _MTU)
        elif key == "forward" and kind == "user":
            forwards.append(_forward(text, value))
        else:
            known = "segment, mtu and forward" if kind == "user" else "segment"
            raise NetSpecError(f"--net {text!r}: {setting!r} is none of {known}")
    return NetSpec(kind, what, segment, mtu, tuple(forwards))


def _number(text: str, setting: str, value: str, among: range) -> int:
    """Return the decimal ``value``.

    Raises NetSpecError naming ``setting`` unless it is in ``among``.
    """
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
    if number not in among:
        raise NetSpecError(f"--net {text!r}: {setting!r}: use a number, {among[0]} to {among[-1]}")
    return number


def _forward(text: str, value: str) -> tuple[str, str]:
    """Return passt's option and argument for ``tcp:[ADDRESS/]PORT:GUESTPORT`` or ``udp:...``.

    The host's address defaults to 127.0.0.1. Raises NetSpecError for another form or a port outside
    1 to 65535.
    """
    match = _FORWARD.fullmatch(value)
    if match is None or not all(0 < int(port) < 1 << 16 for port in match.group(3, 4)):
        raise NetSpecError(f"--net {text!r}: use forward=tcp:[ADDRESS/]PORT:GUESTPORT or udp:...")
    protocol, address, port, to = match.groups()
    where = f"{address.strip('[]')}/" if address else "127.0.0.1/"
    return _OPTION[protocol], f"{where}{port}:{to}"
