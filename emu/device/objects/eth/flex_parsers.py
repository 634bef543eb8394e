"""Parser numbers (flex_parser_id_*) of the flexible parsers that steering entries match.

Capabilities report the numbers to drivers.
"""

from __future__ import annotations

from typing import Final

GENEVE_OPTION: Final = 0
MPLS_OVER_UDP: Final = 1
