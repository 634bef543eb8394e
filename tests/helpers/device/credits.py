"""What the other end of a cable learns by pause frames: how many frames there is room for."""

from __future__ import annotations

from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.switch import SegmentSwitch


def credits_of(hca, clock, packets=1):
    """Frames that the function has receive requests for, by a port that has never asked before.

    The port may send ``packets`` in one frame.
    """
    port = FunctionPort("link partner", SegmentSwitch(clock))
    port.attach(hca)
    return port.credits(clock.now_ns(), packets)
