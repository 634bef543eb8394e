"""Match criteria of a flow group: masks of some fields, and the entries' values under them.

The criteria of CREATE_FLOW_GROUP are a whole fte_match_param; match_criteria_enable selects the
parts that are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, SupportsBytes

from emu.device.engine.eth.steering.fields import FIELDS, OF_SWITCHES, cvlan_tag_alone
from emu.device.engine.eth.steering.match_field import Part, cost_of
from emu.device.errors import BadParamError
from emu.device.objects.eth.flow.matcher import Key
from emu.device.port.eth.headers import Headers
from layouts.enums.flow_table import MatchCriteria

if TYPE_CHECKING:
    from layouts.steering.flow_match import fte_match_param

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


def fields_of(param: fte_match_param, enable: int) -> dict[str, int]:
    """Return the nonzero fields of the enabled parts of an fte_match_param view, by name.

    Raises BAD_PARAM_ERR for an unknown part, and for reserved bits that are set.
    """
    if enable >> len(PARTS):
        raise BadParamError("match_criteria_enable has unknown bits", f"{enable:#x}")
    fields = {}
    for part, bit in PARTS.items():
        if enable & bit:
            view = getattr(param, part)
            values = {field.name: getattr(view, field.name) for field in type(view).fields}
            if bytes(view) != bytes(type(view).new(**values)):
                raise BadParamError("match criteria have reserved bits set", part)
            for name, value in values.items():
                if number := _number(value):
                    fields[f"{part}.{name}"] = number
    return fields


def _number(value: int | SupportsBytes) -> int:
    """Return a field as a number; a field can be a structure."""
    return value if isinstance(value, int) else int.from_bytes(bytes(value), "big")


class Criteria:
    """The masks of one flow group. Raises BAD_PARAM_ERR for an unsupported field."""

    def __init__(self, masks: Mapping[str, int], *, knows_source: bool = False) -> None:
        """Set up the masks; ``knows_source``: the group's table can match the source vPort."""
        unknown = sorted(
            name
            for name, mask in masks.items()
            if mask and (name not in FIELDS or (name in OF_SWITCHES and not knows_source))
        )
        if unknown:
            raise BadParamError("match criteria have a field that is not supported", unknown[0])
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
        """Key parts that decide these fields, besides ``fields.base``."""
        parts = (FIELDS[name].part for name in self.masks)
        return frozenset(part for part in parts if part is not None)

    def key_of(self, values: Mapping[str, int]) -> Key:
        """Return an entry's key: its values under the masks."""
        return tuple(values.get(name, 0) & mask for name, mask in self.masks.items())

    def key_at(self, place: int) -> Key | None:
        """Return None: an entry's index does not determine its key."""
        return None

    def values_of(self, param: fte_match_param) -> dict[str, int]:
        """Return an entry's values from its fte_match_param view, whatever the masks are."""
        values = {}
        for name in self.masks:
            part, _, field = name.partition(".")
            values[name] = _number(getattr(getattr(param, part), field))
        return values

    def read(self, headers: Headers) -> Key | None:
        """Return a packet's key under the masks; None when the packet lacks one of the fields."""
        key = []
        for read, mask in self._readers:
            value = read(headers)
            if value is None:
                return None
            key.append(value & mask)
        return tuple(key)
