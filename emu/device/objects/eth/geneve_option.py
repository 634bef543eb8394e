"""The Geneve option (RFC 8926 3.5) that the device parses for flow groups.

At most one option exists at a time; ``geneve_tlv_option_0_data`` is the first word of its data.
"""

from __future__ import annotations

from typing import Final

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object

MAX_OPTIONS: Final = 1
MAX_WORDS: Final = 1
"""Maximum length of an option's data, in 4-byte words."""


class GeneveOption(Object):
    """An option with this class, type and data length in words."""

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
        """The four bytes in front of the option's data, with reserved bits of 0."""
        return bytes((*self.option_class.to_bytes(2, "big"), self.option_type, self.words))
