"""The second guest of a run: its addresses, its command, and what its kernel logged."""

from __future__ import annotations

from pathlib import Path

from emu.guests import Guest, GuestError, GuestOptions
from emu.host.printable import printable
from emu.instruments.campaign.description import LONGEST_OUTPUT
from emu.instruments.outcome import Finding, findings, of_error

ADDRESS, PEER_ADDRESS = "10.0.0.1", "10.0.0.2"
"""Addresses of the guest of the run's command, and of the second guest."""
_NETWORK_SECONDS = 120.0
_READ_SECONDS = 60.0
# The interface is IPoIB's or the Ethernet port's: the first of the function behind mlx5_0.
_SET_ADDRESS = """
modprobe -q ib_ipoib
until set -- $(ls /sys/class/infiniband/mlx5_0/device/net) && [ -n "$1" ]; do sleep 0.1; done
ip addr add {address}/24 dev "$1" && ip link set "$1" up
"""
_REACH = "until ping -q -c 1 -W 1 {address} > /dev/null; do :; done"


def fabric_of(directory: Path) -> str:
    """Return the address of the fabric that joins the two guests of a run."""
    return f"unix:{directory}/fabric"


def environment(address: str, peer: str) -> dict[str, str]:
    """Return the environment of a guest's command: both addresses."""
    return {"ADDRESS": address, "PEER": peer}


class PeerGuest:
    """The second guest; :meth:`stop` comes last, after any error."""

    def __init__(self, options: GuestOptions) -> None:
        self._guest = Guest(options)
        self._output = bytearray()

    def begin(self) -> None:
        """Begin the boot."""
        self._guest.begin()

    def connect(self, guest: Guest) -> None:
        """Wait until both guests have addresses and ``guest`` reaches this one.

        Raises GuestError: a failed boot, or no connection within two minutes.
        """
        self._guest.wait_ready()
        for one, address in ((guest, ADDRESS), (self._guest, PEER_ADDRESS)):
            one.run(_SET_ADDRESS.format(address=address), timeout=_NETWORK_SECONDS).check()
        guest.run(_REACH.format(address=PEER_ADDRESS), timeout=_NETWORK_SECONDS).check()

    def start(self, command: str) -> None:
        """Start the command in the guest's directory, and keep the end of its output."""
        environ = environment(PEER_ADDRESS, ADDRESS)
        self._guest.popen(command, environ=environ, sink=self._take)

    def _take(self, _kind: int, data: bytes) -> None:
        self._output += data
        del self._output[:-LONGEST_OUTPUT]

    def output(self) -> str:
        """Return the printable end of the command's output so far."""
        return printable(self._output.decode(errors="replace"))

    def findings(self) -> tuple[Finding, ...]:
        """Return the findings in the log of the guest's kernel, or the guest's end."""
        try:
            return findings(self._guest.run("dmesg --raw", timeout=_READ_SECONDS).stdout)
        except GuestError as error:
            return (of_error(error),)

    def stop(self) -> None:
        """Stop the guest and its command."""
        self._guest.stop()
