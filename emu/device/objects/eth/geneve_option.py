"""An option of Geneve's header (RFC 8926 3.5) that the device's parser looks for, for flow groups.

There is one at a time, whose first four bytes of data are ``geneve_tlv_option_0_data``.
"""

from __future__ import annotations

from typing import Final

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

MAX_OPTIONS: Final = 1
MAX_WORDS: Final = 1
"""Of four bytes, which an option's data has."""


class GeneveOption(Object):
    """An option with this class and type, whose data has so many words."""

    __slots__ = ("option_class", "option_type", "words")
    kind = "geneve option"
    numbering = Numbering(lambda made: 1 + MAX_OPTIONS)

    def __init__(self, option_class: int, option_type: int, words: int) -> None:
        super().__init__()
        self.option_class, self.option_type, self.words = option_class, option_type, words

    def about(self) -> dict[str, object]:
        return {"class": self.option_class, "type": self.option_type, "words": self.words}

    @property
    def header(self) -> bytes:
        """The four bytes in front of its data, with reserved bits of 0."""
        return bytes((*self.option_class.to_bytes(2, "big"), self.option_type, self.words))
