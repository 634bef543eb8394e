"""Match definers: general objects of flow groups that split packets by a hash.

Source: core/fs_cmd.c: mlx5_cmd_create_match_definer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from emu.device.engine.eth.steering.hash_split import DEFINER_FIELDS
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.match_definer import MatchDefiner
from firmware_cmds.given_object import given_object
from layouts.enums.cmd import Status
from layouts.prm import Prm
from layouts.steering import match_definer as layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables
    from layouts.objects.general_object import create_general_object_in

_FORMATS: Mapping[int, type[Prm]] = {
    0: layout.match_definer_format_0,
    22: layout.match_definer_format_22,
    23: layout.match_definer_format_23,
    29: layout.match_definer_format_29,
    30: layout.match_definer_format_30,
    31: layout.match_definer_format_31,
    32: layout.match_definer_format_32,
}
"""Fields by format_id: the formats that Linux uses (core/lag/port_sel.c)."""


def create(tables: ObjectTables, cmd: create_general_object_in) -> int:
    """Create a match definer; return its number. Unknown formats and fields are refused.

    The status is BAD_PARAM_ERR, as for reserved bits. Raises LIM_ERR for more than one definer.
    """
    if cmd.log_obj_range:
        raise CmdError(
            Status.LIM_ERR, "one command makes one match definer", f"{1 << cmd.log_obj_range}"
        )
    obj = layout.match_definer.view(given_object(cmd.object, layout.match_definer.size))
    masks = _masks(obj.format_id, bytes(obj.match_mask))
    return tables.objects[MatchDefiner].add(MatchDefiner(obj.format_id, masks))


def _masks(format_id: int, mask: bytes) -> dict[str, int]:
    """Return the fields that a mask of this format names, in the order of their names.

    Raises BAD_PARAM_ERR for an unknown format, reserved bits, and a field that is not supported.
    """
    if format_id not in _FORMATS:
        raise BadParamError("format of a match definer not supported", f"{format_id}")
    prm = _FORMATS[format_id]
    view = prm.view(mask)
    values = {field.name: getattr(view, field.name) for field in prm.fields}
    if bytes(prm.new(**values)) != mask:
        raise BadParamError("match definer has reserved bits set")
    masks = {}
    for name in sorted(values):
        value = values[name]
        number = value if isinstance(value, int) else int.from_bytes(bytes(value), "big")
        if number and name not in DEFINER_FIELDS:
            raise BadParamError("field of a match definer not supported", name)
        if number:
            masks[name] = number
    return masks


def destroy(tables: ObjectTables, number: int) -> None:
    """Destroy a match definer; refused while a group names it."""
    tables.objects[MatchDefiner].remove(number)
