"""The specification of one function, parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from emu.device.models import DEFAULT_MODEL, MODELS, Model
from emu.device.port.ib.port import BASE_GUID
from emu.device.state.hca import HcaOptions
from emu.near import near
from emu.server.service.devicespec.model import linked, with_settings
from emu.server.service.devicespec.settings import DeviceSpecError, read_setting


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A model and the options of a function."""

    model: Model
    options: HcaOptions
    chosen: frozenset[str] = frozenset()
    """Options given explicitly; others have their defaults."""
    segment: int = 0
    """Segment of an Ethernet port."""
    board: int = 0
    """Number of the board that the port shares with another function's; 0 for none."""
    vfs: tuple[DeviceSpec, ...] = ()
    """The virtual functions that the function can enable; :func:`parse_all` sets them."""


def parse(text: str, index: int = 0) -> DeviceSpec:
    """Return the specification in ``text``, ``MODEL[,KEY=VALUE]...``.

    An empty MODEL is the default one. Defaults of ``guid`` and ``lid`` follow from ``index``, the
    function's number. Raises :class:`DeviceSpecError` with a line for each unknown model, setting
    and invalid value. A setting that the model or its link layer does not support raises it, too.
    Boards and duplicates are checked by :func:`parse_all`.
    """
    name, *settings = text.split(",")
    name = name or DEFAULT_MODEL
    wrong: list[str] = []
    if name not in MODELS:
        similar = near(name, MODELS) or f"; known models: {', '.join(MODELS)}"
        wrong.append(f"unknown model {name!r}{similar}")
    chosen: dict[str, Any] = {}
    for setting in settings:
        try:
            key, chosen[key] = read_setting(setting)
        except DeviceSpecError as error:
            wrong.append(str(error))
    if wrong:
        raise DeviceSpecError("\n".join(wrong))
    model = with_settings(linked(name, chosen), chosen)
    options = HcaOptions(
        chosen.get("guid", BASE_GUID + 16 * index),
        chosen.get("lid", 1 + index),
        chosen.get("pages", 0),
        bool(chosen.get("mw_2a")),
        chosen.get("mac", 0),
        chosen.get("pkeys", ()),
    )
    segment, board = chosen.get("segment", 0), chosen.get("board", 0)
    return DeviceSpec(model, options, frozenset(chosen), segment, board)
