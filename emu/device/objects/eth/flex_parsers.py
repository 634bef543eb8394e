"""Flexible parsers: what steering entries of software match of a packet, by the parser's number.

Capabilities tell drivers the numbers (flex_parser_id_*).
"""

from __future__ import annotations

from typing import Final

GENEVE_OPTION: Final = 0
MPLS_OVER_UDP: Final = 1
