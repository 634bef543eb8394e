"""What a flow group matches: masks of some fields, and the values of its entries under them.

The criteria of CREATE_FLOW_GROUP are a whole fte_match_param; only the parts that
match_criteria_enable selects count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, SupportsBytes

from emu.device.engine.eth.steering.fields import FIELDS, OF_SWITCHES, cvlan_tag_alone
from emu.device.engine.eth.steering.match_field import Part, cost_of
from emu.device.errors import CmdError
from emu.device.objects.eth.flow import Key
from emu.device.port.eth.headers import Headers
from layouts.enums import Status
from layouts.eth_enums import MatchCriteria

if TYPE_CHECKING:
    from layouts.steering.flow_match import FteMatchParam

PARTS: Final = {
    "outer_headers": MatchCriteria.OUTER_HEADERS,
    "misc_parameters": MatchCriteria.MISC_PARAMETERS,
    "inner_headers": MatchCriteria.INNER_HEADERS,
    "misc_parameters_2": MatchCriteria.MISC_PARAMETERS_2,
    "misc_parameters_3": MatchCriteria.MISC_PARAMETERS_3,
    "misc_parameters_4": MatchCriteria.MISC_PARAMETERS_4,
    "misc_parameters_5": MatchCriteria.MISC_PARAMETERS_5,
}

_CVLAN: Final = "outer_headers.cvlan_tag"
_SVLAN: Final = "outer_headers.svlan_tag"


def fields_of(param: FteMatchParam, enable: int) -> dict[str, int]:
    """The fields of an fte_match_param view that are not 0, in the enabled parts, by name.

    Raises BAD_PARAM_ERR for a part that fte_match_param does not have, and for bits that are
    reserved.
    """
    if enable >> len(PARTS):
        raise CmdError(
            Status.BAD_PARAM_ERR, "unknown part of fte_match_param enabled", f"enable {enable:#x}"
        )
    fields = {}
    for part, bit in PARTS.items():
        if enable & bit:
            view = getattr(param, part)
            values = {field.name: getattr(view, field.name) for field in view.prm.fields}
            if bytes(view) != bytes(view.prm.new(**values)):
                raise CmdError(Status.BAD_PARAM_ERR, "match criteria have reserved bits set", part)
            for name, value in values.items():
                if number := _number(value):
                    fields[f"{part}.{name}"] = number
    return fields


def _number(value: int | SupportsBytes) -> int:
    """A field, which can be a structure of its own."""
    return value if isinstance(value, int) else int.from_bytes(bytes(value), "big")


class Criteria:
    """The masks of one flow group. Raises BAD_PARAM_ERR for a field that is not known."""

    def __init__(self, masks: Mapping[str, int], *, knows_source: bool = False) -> None:
        """``knows_source``: the group's table can match the vPort that a packet comes from."""
        unknown = sorted(
            name
            for name, mask in masks.items()
            if mask and (name not in FIELDS or (name in OF_SWITCHES and not knows_source))
        )
        if unknown:
            raise CmdError(
                Status.BAD_PARAM_ERR,
                "match criteria have a field that is not supported",
                unknown[0],
            )
        self.masks = {name: mask for name, mask in masks.items() if mask}
        self.cost = sum(cost_of(FIELDS[name].read) for name in self.masks)
        self._readers = tuple((FIELDS[name].read, mask) for name, mask in self.masks.items())
        if _CVLAN in self.masks and _SVLAN not in self.masks:
            self._readers = tuple(
                (cvlan_tag_alone if name == _CVLAN else FIELDS[name].read, mask)
                for name, mask in self.masks.items()
            )

    @property
    def parts(self) -> frozenset[Part]:
        """The parts of a packet that determine these fields, besides its base."""
        parts = (FIELDS[name].part for name in self.masks)
        return frozenset(part for part in parts if part is not None)

    def key_of(self, values: Mapping[str, int]) -> Key:
        """An entry's key: its values under the masks."""
        return tuple(values.get(name, 0) & mask for name, mask in self.masks.items())

    def key_at(self, place: int) -> Key | None:
        """An entry's place does not decide."""
        return None

    def values_of(self, param: FteMatchParam) -> dict[str, int]:
        """An entry's values, from its fte_match_param view; bits outside the masks do not count."""
        values = {}
        for name in self.masks:
            part, _, field = name.partition(".")
            values[name] = _number(getattr(getattr(param, part), field))
        return values

    def read(self, headers: Headers) -> Key | None:
        """A packet's key; None when the packet lacks one of the fields."""
        key = []
        for read, mask in self._readers:
            value = read(headers)
            if value is None:
                return None
            key.append(value & mask)
        return tuple(key)
