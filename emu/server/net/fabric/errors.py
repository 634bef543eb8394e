"""What goes wrong between the processes of a fabric."""

from __future__ import annotations


class FabricProtocolError(Exception):
    """The other side violates the protocol; the text says how."""
