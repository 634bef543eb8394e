"""Errors between the processes of a fabric."""

from __future__ import annotations


class FabricProtocolError(Exception):
    """A peer's violation of the protocol; the text says which."""
