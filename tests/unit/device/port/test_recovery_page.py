"""The page of links says which recovery of lost packets is on by default."""

from pathlib import Path

from emu.device.port.recovery import LossRecovery

PAGE = Path(__file__).parents[4] / "share/guide/links.md"


def test_the_defaults_are_those_of_the_page():
    words = " ".join(PAGE.read_text().split())
    state = {True: "on", False: "off"}
    port = LossRecovery()
    assert (
        f"By default adaptive retransmission is {state[port.adaptive_retransmission]}"
        f" and selective repeat is {state[port.selective_repeat]}."
    ) in words
