"""The actions of an STE: parses them into steps that change a packet.

Actions are executed in order. An STE may point to a list of further actions in ICM. Field changes
and header moves become the same kinds of steps as in firmware-owned entries
(``emu.device.engine.eth.steering.rewrite``).

Source: core/steering/dr_ste_v1.c: dr_ste_v1_set_actions_rx, dr_ste_v1_set_action_decap_l3_list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from emu.device.engine.eth.ste.dwords import (
    WORDS,
    Changed,
    UnknownWordError,
    Words,
    add_to_word,
    copy_word,
    set_word,
)
from emu.device.engine.eth.ste.header_edits import (
    Anchor,
    Move,
    cut_to,
    encap,
    insert,
    moved,
    remove,
)
from emu.device.engine.eth.steering.match_field import Part
from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.packet_reformat import BEGINNINGS, PacketReformat
from emu.device.objects.eth.reshape import Reshape, Step, Steps, together
from emu.device.objects.memory.sw_icm import HEADER_MODIFY, IcmMemory
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import MeterColor
from layouts.enums.packet_reformat import ReformatType
from layouts.steering import ste as layout

SINGLE_BYTES: Final = 4
DOUBLE_BYTES: Final = 8
_LIST_UNIT: Final = 64
"""Unit of an STE's pointer to a list, in bytes."""
_QW: Final = 0x20
"""Offset of all shifters (MLX5_MODIFY_HEADER_V1_QW_OFFSET)."""
_POLICER: Final = 2
_ENCAP: Final = 1
"""Attribute of an insertion: the data are a tunnel's headers."""


class ActionId(IntEnum):
    """Action identifiers (dr_ste_v1_action_id)."""

    NOP = 0x00
    COPY = 0x05
    SET = 0x06
    ADD = 0x07
    REMOVE_BY_SIZE = 0x08
    REMOVE_HEADER_TO_HEADER = 0x09
    INSERT_INLINE = 0x0A
    INSERT_POINTER = 0x0B
    FLOW_TAG = 0x0C
    MODIFY_LIST = 0x0F
    ASO = 0x12


class BadActionError(Exception):
    """An STE has an unsupported or malformed action; the text names the fault."""


class MeterStep(NamedTuple):
    """A flow meter that decides a packet's color, after all other actions."""

    number: int
    """Number of the ASO object."""
    place: int
    """Index of the meter within the object."""
    before: MeterColor
    register: int
    """Number of the register C that receives the color."""


class ActionPlan(NamedTuple):
    """The parsed actions of an STE."""

    steps: Steps | None = None
    tag: int = 0
    meter: MeterStep | None = None
    actions: int = 0
    """Number of actions, including those in its list and NOPs."""
    is_opaque: bool = False
    """Whether the original packet's key parts no longer decide later reads of the packet."""
    parts: frozenset[Part] | None = frozenset()
    """Key parts that decide the result of the actions, besides those read later. None if unknown.
    """


NOTHING: Final = ActionPlan()


class Planner:
    """Parses the actions of STEs of one format."""

    def __init__(
        self, icm: IcmMemory, version: int, reformat: Callable[[int], PacketReformat | None]
    ) -> None:
        """Set up a parser; ``reformat`` finds a packet reformat context by its number."""
        self._icm = icm
        self._words = WORDS[version]
        self._reformat = reformat
        self.read = 0
        """Number of actions read so far, those of bad entries included."""

    def plan(self, data: bytes) -> ActionPlan:
        """Return the parsed actions of an STE; NOTHING for bytes that are all 0.

        Raises BadActionError for an unsupported or truncated action, an unknown word or anchor, or
        a missing packet reformat context. Reads action lists from ICM.
        """
        if not any(data):
            return NOTHING
        building = _Building()
        self._read(building, data, is_list=False)
        return building.finish()

    def _read(self, building: _Building, data: bytes, *, is_list: bool) -> None:
        """Add actions to the plan, lists of them included. Raises BadActionError."""
        at = 0
        while at < len(data):
            kind = data[at]
            size = DOUBLE_BYTES if is_list or kind in _DOUBLES else SINGLE_BYTES
            one = data[at : at + size]
            building.actions += 1
            self.read += 1
            if len(one) < size:
                raise BadActionError(f"action {kind:#x} exceeds the entry")
            if kind == ActionId.MODIFY_LIST and not is_list:
                self._read(building, self._list(one), is_list=True)
            elif kind != ActionId.NOP:
                self._one(building, kind, one)
            at += size

    def _list(self, one: bytes) -> bytes:
        """Return the bytes of the action list in ICM to which an action points."""
        given = layout.ste_single_action_modify_list_v1.view(one)
        start = HEADER_MODIFY.start + given.modify_actions_ptr * _LIST_UNIT
        count = given.num_of_modify_actions
        return b"".join(
            self._icm.read(start + n * DOUBLE_BYTES, DOUBLE_BYTES) for n in range(count)
        )

    def _one(self, building: _Building, kind: int, one: bytes) -> None:
        """Add one action to the plan. Raises BadActionError if it is unsupported or malformed."""
        try:
            if kind in _FIELDS:
                building.fields.append(_FIELDS[kind](self._words, one))
            elif kind == ActionId.FLOW_TAG:
                building.tag = layout.ste_single_action_flow_tag_v1.view(one).flow_tag
            elif kind == ActionId.ASO:
                building.meter = _meter(one)
            elif kind == ActionId.INSERT_POINTER:
                self._insert(building, one)
            elif kind in _HEADER_EDITS:
                building.move(_HEADER_EDITS[kind](one))
            else:
                raise BadActionError(f"action {kind:#x} not supported")
        except UnknownWordError as error:
            raise BadActionError(f"action {kind:#x}: {error}") from None

    def _insert(self, building: _Building, one: bytes) -> None:
        """Add an insertion by a packet reformat context.

        Raises BadActionError for an unknown context, or one that does not fit the action's
        attributes.
        """
        given = layout.ste_double_action_insert_with_ptr_v1.view(one)
        context = self._reformat(given.pointer)
        if context is None:
            raise BadActionError(f"no packet reformat context {given.pointer:#x}")
        kind = context.reformat_type
        if given.attributes == _ENCAP and kind in BEGINNINGS:
            building.move(encap(context))
        elif given.attributes == _ENCAP and kind is ReformatType.L2_TO_L3_TUNNEL:
            building.encap_of_packets(context)
        elif not given.attributes and kind is ReformatType.INSERT_HDR:
            building.step(context)
        else:
            raise BadActionError(f"{context!r} does not fit attributes {given.attributes}")


class _Building:
    """A plan under construction: finished steps, and actions that are not a step yet."""

    def __init__(self) -> None:
        self.fields: list[Changed] = []
        self._header_edits: list[Move] = []
        self._steps: list[Step] = []
        self.tag = self.actions = 0
        self.meter: MeterStep | None = None
        self._is_opaque = False
        self._parts: frozenset[Part] | None = frozenset()

    def _depend_on(self, parts: frozenset[Part] | None) -> None:
        """Add key parts to those that decide the plan's result.

        The result's key parts become unknown (None) if ``parts`` is, or after headers have moved:
        the same key parts then describe other bytes.
        """
        if self._parts is None or parts is None or (self._is_opaque and parts):
            self._parts = None
        else:
            self._parts |= parts

    def move(self, move: Move) -> None:
        """Add a move of headers, after the field changes so far."""
        self._end_fields()
        self._depend_on(move.parts)
        self._is_opaque |= not move.is_outermost
        self._header_edits.append(move)

    def step(self, step: Step) -> None:
        """Add a finished step, after the field changes and moves so far."""
        self._end_fields()
        self._end_header_edits()
        self._depend_on(step.parts)
        self._is_opaque |= bool(step.reshapes)
        self._steps.append(step)

    def encap_of_packets(self, context: PacketReformat) -> None:
        """Add a tunnel of IP packets, whose Ethernet header an earlier action has removed.

        Raises BadActionError without that removal.
        """
        if not self._header_edits or self._header_edits[-1].anchor is not Anchor.IP:
            raise BadActionError("L2_TO_L3_TUNNEL without prior removal of the Ethernet header")
        self._header_edits.pop()
        self._header_edits.append(encap(context))

    def _end_fields(self) -> None:
        """Turn the field changes so far into one step."""
        if self.fields:
            self._end_header_edits()
            step = _changing(self.fields)
            if not self._is_opaque:  # a cached decision does not read the fields again
                self._depend_on(step.parts)
            self._steps.append(step)
            self.fields = []

    def _end_header_edits(self) -> None:
        """Turn the header moves so far into one step."""
        if self._header_edits:
            needs_whole = any(move.needs_whole for move in self._header_edits)
            header_edits = tuple(self._header_edits)
            self._steps.append(
                Reshape(
                    "steering entry",
                    lambda headers: moved(headers, header_edits),
                    needs_whole=needs_whole,
                    copies=len(header_edits),
                )
            )
            self._header_edits = []

    def finish(self) -> ActionPlan:
        """Return the plan of all actions so far."""
        self._end_fields()
        self._end_header_edits()
        return ActionPlan(
            together(tuple(self._steps)), self.tag, self.meter, self.actions, self._is_opaque,
            self._parts,
        )  # fmt: skip


def _changing(fields: list[Changed]) -> ModifyHeader:
    """Return one step that makes these field changes."""
    return ModifyHeader(
        FlowTableType.NIC_RX, tuple(field.change for field in fields),
        frozenset[Part]().union(*(field.parts for field in fields)),
        any(field.in_frame for field in fields),
    )  # fmt: skip


def _shift(given: int) -> int:
    if given < _QW:
        raise UnknownWordError(f"shifter {given:#x}")
    return given - _QW


def _set(words: Words, one: bytes) -> Changed:
    given = layout.ste_double_action_set_v1.view(one)
    return set_word(
        words, given.destination_dw_offset, _shift(given.destination_left_shifter),
        given.destination_length, given.inline_data,
    )  # fmt: skip


def _add(words: Words, one: bytes) -> Changed:
    given = layout.ste_double_action_add_v1.view(one)
    return add_to_word(
        words, given.destination_dw_offset, _shift(given.destination_left_shifter),
        given.destination_length, given.add_value,
    )  # fmt: skip


def _copy(words: Words, one: bytes) -> Changed:
    given = layout.ste_double_action_copy_v1.view(one)
    return copy_word(
        words, (given.destination_dw_offset, _shift(given.destination_left_shifter)),
        given.destination_length,
        (given.source_dw_offset, _shift(given.source_right_shifter)),
    )  # fmt: skip


def _meter(one: bytes) -> MeterStep:
    """Return the parsed ASO action. Raises BadActionError unless it names a flow meter.

    Registers are numbered by pairs, and the second of a pair receives the color (dr_ste_v1.c:
    dr_ste_v1_set_aso_flow_meter).
    """
    given = layout.ste_double_action_aso_v1.view(one)
    if given.aso_context_type != _POLICER:
        raise BadActionError(f"aso_context_type {given.aso_context_type:#x} not supported")
    meter = given.flow_meter
    return MeterStep(
        given.aso_context_number, meter.line_id, MeterColor(meter.initial_color),
        2 * given.dest_reg_id + 1,
    )  # fmt: skip


def _inline(one: bytes) -> Move:
    given = layout.ste_double_action_insert_with_inline_v1.view(one)
    return insert(_anchor(given.start_anchor), given.start_offset * 2, one[SINGLE_BYTES:])


def _by_size(one: bytes) -> Move:
    given = layout.ste_single_action_remove_header_size_v1.view(one)
    return remove(_anchor(given.start_anchor), given.start_offset * 2, given.remove_size * 2)


def _to_header(one: bytes) -> Move:
    """Return the removal of all bytes before a header. Raises BadActionError for another start."""
    given = layout.ste_single_action_remove_header_v1.view(one)
    if given.start_anchor:
        raise BadActionError(
            f"removal of headers from anchor {given.start_anchor:#x} not supported"
        )
    return cut_to(_anchor(given.end_anchor))


def _anchor(number: int) -> Anchor:
    """Return the anchor with a number. Raises BadActionError for an unsupported one."""
    try:
        return Anchor(number)
    except ValueError:
        raise BadActionError(f"anchor {number:#x} not supported") from None


_FIELDS: Final[Mapping[int, Callable[[Words, bytes], Changed]]] = {
    ActionId.SET: _set,
    ActionId.ADD: _add,
    ActionId.COPY: _copy,
}
_HEADER_EDITS: Final[Mapping[int, Callable[[bytes], Move]]] = {
    ActionId.INSERT_INLINE: _inline,
    ActionId.REMOVE_BY_SIZE: _by_size,
    ActionId.REMOVE_HEADER_TO_HEADER: _to_header,
}
_DOUBLES: Final = frozenset(
    {*_FIELDS, ActionId.INSERT_INLINE, ActionId.INSERT_POINTER, ActionId.ASO}
)
