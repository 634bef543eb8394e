"""Failures of chaos for programs over sockets: those of packets strike Ethernet frames."""

import pytest
from helpers.device.captured import plugged_functions

from emu.device.engine.eth.transmit import FRAME_TX_POINT
from emu.device.faults.injector import Injector
from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.frames import EthPacket
from emu.host import shipped
from emu.instruments.chaos.sets import read_sets
from emu.server.net.eth.segments import Segments

FRAMES = 500


@pytest.mark.parametrize(
    "failure",
    [
        "loss-1-percent", "loss-20-percent", "packets-reordered", "packets-doubled",
        "packets-corrupted", "latency-50-ms",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("name", "strikes"), [("over-ethernet", True), ("over-ipoib", False)])
def test_frames(clock, name, strikes, failure):
    """Those of @over-ipoib count packets of queue pairs."""
    functions, _cables = plugged_functions(clock, Segments(clock))
    sets = read_sets([shipped.example("failure set", name)])
    (chosen,) = (one for one in sets if one.name == failure)
    functions[0].use_faults(injector := Injector(functions[0]))
    injector.load(chosen.planned(0))
    for _ in range(FRAMES):
        one, frame = functions[0].hca, Frame(EthPacket().frame().ljust(60, b"\0"))
        one.probes.faults.show(FRAME_TX_POINT, frame, one.vhca)
    (rule,) = injector.listing()
    assert (rule["fired"] > 0) == strikes
