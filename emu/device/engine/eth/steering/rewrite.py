"""Modify header contexts: change a packet's header fields and metadata registers.

Entries of later tables match registers C; register B goes into the CQE. All registers are 0 in an
arriving packet. Checksums are updated incrementally, so a wrong one stays wrong. Fields that the
packet lacks are skipped. Changes that move headers are separate steps (``Reshape``).

Sources: PRM "Modify header"; core/en_tc.c: fields, mlx5e_tc_attr_to_reg_mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from emu.device.engine.eth.steering.fields import FIELDS, REGISTERS
from emu.device.engine.eth.steering.match_field import Part
from emu.device.errors import BadParamError
from emu.device.objects.eth.modify_header import ModifyHeader
from emu.device.objects.eth.reshape import Steps
from emu.device.port.eth.checksum import adjust
from emu.device.port.eth.headers import TCP, UDP, Headers, Marked, parse
from emu.device.rounds.costs import LOG_BYTES_PER_STEP, LOG_CHANGES_PER_STEP, STEPS_PER_REWRITE
from layouts.enums.flow_table import FlowTableType
from layouts.enums.modify_header import ModifyAction, ModifyField
from layouts.steering.modify_header import add_action_in, copy_action_in, set_action_in

_HEAD_BYTES: Final = 384
"""Maximum number of bytes matched or hashed from the transport header's start on: those of a TCP
packet over IPv6 in a tunnel with all of Geneve's options."""
ABSENT: Final = -1


class Changing:
    """A packet during its changes: header offsets, bytes and registers."""

    __slots__ = ("frame", "headers", "registers")

    def __init__(self, headers: Headers) -> None:
        self.headers = headers
        self.frame: bytes | bytearray = headers.frame
        self.registers = dict(headers.registers) if isinstance(headers, Marked) else {}


Change = Callable[[Changing], None]


class FieldPosition(NamedTuple):
    """Location of a field in a frame: some bits of a big-endian number."""

    at: Callable[[Headers], int]
    """Offset of the number, or ABSENT."""
    octets: int
    shift: int
    bits: int
    part: Part | None
    """Key part that decides the field's value, besides ``fields.base``."""

    def get(self, packet: Changing) -> int | None:
        at = self.at(packet.headers)
        if at == ABSENT:
            return None
        number = int.from_bytes(packet.frame[at : at + self.octets], "big")
        return number >> self.shift & (1 << self.bits) - 1

    def put(self, packet: Changing, value: int) -> None:
        """Write the field, which must exist, in the packet's frame, a bytearray."""
        at, frame = self.at(packet.headers), packet.frame
        assert isinstance(frame, bytearray)
        end = at + self.octets
        others = ~((1 << self.bits) - 1 << self.shift)
        number = int.from_bytes(frame[at:end], "big") & others | value << self.shift
        frame[at:end] = number.to_bytes(self.octets, "big")


class _Register(NamedTuple):
    """A metadata register."""

    number: ModifyField
    bits: int = 32
    part: Part | None = None

    def get(self, packet: Changing) -> int | None:
        return packet.registers.get(self.number, 0)

    def put(self, packet: Changing, value: int) -> None:
        packet.registers[self.number] = value


def _mac(start: int, octets: int) -> FieldPosition:
    return FieldPosition(lambda headers: start, octets, 0, octets * 8, None)


def _ip(version: int, start: int, octets: int, shift: int, bits: int, field: str) -> FieldPosition:
    """Return the position of a field of IP version ``version``, absent in other packets."""

    def at(headers: Headers) -> int:
        return headers.l3 + start if headers.version == version else ABSENT

    return FieldPosition(at, octets, shift, bits, FIELDS[f"outer_headers.{field}"].part)


class _Dscp(NamedTuple):
    """The DSCP field, whose bits differ between IPv4 and IPv6."""

    part: Part | None
    bits: int = 6

    def get(self, packet: Changing) -> int | None:
        location = _DSCP.get(packet.headers.version)
        return location.get(packet) if location else None

    def put(self, packet: Changing, value: int) -> None:
        _DSCP[packet.headers.version].put(packet, value)


_Field = FieldPosition | _Register | _Dscp


def _l4(protocol: int, start: int, bits: int, field: str) -> FieldPosition:
    """Return the position of a field of TCP or UDP, absent in packets of another protocol."""

    def at(headers: Headers) -> int:
        return headers.l4 + start if headers.l4 and headers.protocol == protocol else ABSENT

    return FieldPosition(at, 2, 0, bits, FIELDS[f"outer_headers.{field}"].part)


def _addresses() -> dict[int, _Field]:
    """Return the address fields: four per IPv6 address, one per IPv4 address."""
    locations: dict[int, _Field] = {
        ModifyField.OUT_SIPV4: _ip(4, 12, 4, 0, 32, "src_ipv4_src_ipv6"),
        ModifyField.OUT_DIPV4: _ip(4, 16, 4, 0, 32, "dst_ipv4_dst_ipv6"),
    }
    for word in range(8):
        field = "src_ipv4_src_ipv6" if word < 4 else "dst_ipv4_dst_ipv6"
        location = _ip(6, 8 + 4 * word, 4, 0, 32, field)
        locations[ModifyField(ModifyField.OUT_SIPV6_127_96 + word)] = location
    return locations


_DSCP: Final = {4: _ip(4, 0, 2, 2, 6, "ip_dscp"), 6: _ip(6, 0, 2, 6, 6, "ip_dscp")}
_REGISTERS: Final[dict[int, _Field]] = {
    field: _Register(field, part=REGISTERS[field].part if field in REGISTERS else None)
    for field in ModifyField
    if "METADATA" in field.name
}
PLACES: Final[dict[int, _Field]] = {
    ModifyField.OUT_DMAC_47_16: _mac(0, 4),
    ModifyField.OUT_DMAC_15_0: _mac(4, 2),
    ModifyField.OUT_SMAC_47_16: _mac(6, 4),
    ModifyField.OUT_SMAC_15_0: _mac(10, 2),
    ModifyField.OUT_FIRST_VID: FieldPosition(
        lambda headers: 14 if headers.tags else ABSENT, 2, 0, 12, None
    ),
    ModifyField.OUT_IP_DSCP: _Dscp(FIELDS["outer_headers.ip_dscp"].part),
    ModifyField.OUT_IP_TTL: _ip(4, 8, 1, 0, 8, "ttl_hoplimit"),
    ModifyField.OUT_IPV6_HOPLIMIT: _ip(6, 7, 1, 0, 8, "ttl_hoplimit"),
    ModifyField.OUT_TCP_FLAGS: _l4(TCP, 12, 9, "tcp_flags"),
    ModifyField.OUT_TCP_SPORT: _l4(TCP, 0, 16, "tcp_sport"),
    ModifyField.OUT_TCP_DPORT: _l4(TCP, 2, 16, "tcp_dport"),
    ModifyField.OUT_UDP_SPORT: _l4(UDP, 0, 16, "udp_sport"),
    ModifyField.OUT_UDP_DPORT: _l4(UDP, 2, 16, "udp_dport"),
    **_addresses(),
    **_REGISTERS,
}
"""Fields that can be modified. OUT_ETHERTYPE is missing: a new type would mean other headers."""


# -- contexts


def _bits_of(field: int, offset: int, length: int) -> _Field:
    """Return the field with this number.

    Raises BAD_PARAM_ERR if it cannot be modified, or has fewer than ``offset + length`` bits.
    """
    location = PLACES.get(field)
    if location is None:
        raise BadParamError("field cannot be modified", f"{field:#x}")
    if offset + length > location.bits:
        raise BadParamError(
            "modify header action exceeds its field",
            f"field {field:#x}: {length} bits from {offset}",
        )  # fmt: skip
    return location


def _set(action: set_action_in) -> tuple[Change, bool, Part | None]:
    """Return the change of a SET action. Raises BAD_PARAM_ERR for data longer than its length.

    The other results: whether bytes of the frame change, and the key part that is read (None). A
    packet that lacks the field is unchanged.
    """
    offset, length = action.offset, action.length or 32
    field = _bits_of(action.field, offset, length)
    mask, value = (1 << length) - 1 << offset, action.data << offset
    if value & ~mask:
        raise BadParamError(
            "modify header action's data exceeds its length", f"{action.data:#x} in {length} bits"
        )

    def change(packet: Changing) -> None:
        old = field.get(packet)
        if old is not None:
            field.put(packet, old & ~mask | value)

    return change, action.field not in _REGISTERS, None


def _add(action: add_action_in) -> tuple[Change, bool, Part | None]:
    """Return the change of an ADD action, modulo the field, and whether bytes of the frame change.

    A packet that lacks the field is unchanged. Raises BAD_PARAM_ERR for a field that cannot be
    modified.
    """
    field, data = _bits_of(action.field, 0, 0), action.data
    mask = (1 << field.bits) - 1

    def change(packet: Changing) -> None:
        old = field.get(packet)
        if old is not None:
            field.put(packet, old + data & mask)

    return change, action.field not in _REGISTERS, None


def _copy(action: copy_action_in) -> tuple[Change, bool, Part | None]:
    """Return the change of a COPY action, whether frame bytes change, and the source's key part.

    A packet that lacks either field is unchanged.
    """
    length, lowest, offset = action.length or 32, action.src_offset, action.dst_offset
    source = _bits_of(action.src_field, lowest, length)
    target = _bits_of(action.dst_field, offset, length)
    mask = (1 << length) - 1

    def change(packet: Changing) -> None:
        value, old = source.get(packet), target.get(packet)
        if value is not None and old is not None:
            target.put(packet, old & ~(mask << offset) | (value >> lowest & mask) << offset)

    return change, action.dst_field not in _REGISTERS, source.part


_ACTIONS: Final[dict[int, tuple[Any, Callable[[Any], tuple[Change, bool, Part | None]]]]] = {
    ModifyAction.SET: (set_action_in, _set),
    ModifyAction.ADD: (add_action_in, _add),
    ModifyAction.COPY: (copy_action_in, _copy),
}


def context_of(table_type: FlowTableType, actions: Sequence[bytes]) -> ModifyHeader:
    """Return the context of a list of actions, 8 bytes each.

    Raises BAD_PARAM_ERR for an action other than SET, ADD and COPY, for a field that cannot be
    modified, and for bits outside a field. Copied fields become key parts
    (:attr:`ModifyHeader.parts`). Fields that are set or added to are key parts only where a group
    matches them.
    """
    made = []
    for action in actions:
        kind = action[0] >> 4
        if kind not in _ACTIONS:
            raise BadParamError("modify header action not supported", f"{kind}")
        layout, make = _ACTIONS[kind]
        made.append(make(layout.view(action)))
    return ModifyHeader(
        table_type,
        tuple(change for change, _, _ in made),
        frozenset(part for _, _, part in made if part is not None),
        any(in_frame for _, in_frame, _ in made),
    )


# -- packets


def head(headers: Headers) -> Headers:
    """Return the packet with only the bytes that flow groups match and TIRs hash."""
    upto = max(headers.l3, headers.l4) + _HEAD_BYTES
    registers = dict(headers.registers) if isinstance(headers, Marked) else {}
    return _with_frame(headers, headers.frame[:upto], registers)


def cost_of(steps: Steps, octets: int) -> int:
    """Return the cost of :func:`rewrite` for a packet of ``octets`` bytes, in steps of a round."""
    changes, copied = len(steps.changes) + steps.reshapes, steps.reshapes * octets
    return STEPS_PER_REWRITE + (changes >> LOG_CHANGES_PER_STEP) + (copied >> LOG_BYTES_PER_STEP)


def rewrite(headers: Headers, steps: Steps) -> Marked:
    """Return a packet after all these steps, with its checksums adjusted.

    Fields that the packet lacks are skipped. Raises FrameError when a step that moves headers is
    impossible.
    """
    if not steps.reshapes:
        return _rewritten(headers, steps.changes, steps.in_frame)
    for step in steps.steps:
        if step.reshapes:
            headers = _reshaped(headers, step)
        else:
            headers = _rewritten(headers, step.changes, step.in_frame)
    return headers if isinstance(headers, Marked) else Marked(headers, {})


def _reshaped(headers: Headers, step: Any) -> Marked:
    """Return the packet after a step that moves headers, parsed anew. Raises FrameError."""
    frame: bytes = step.changes[0](headers)
    if frame is headers.frame:
        return headers if isinstance(headers, Marked) else Marked(headers, {})
    after = parse(frame, whole=False)
    after.copy_state(headers)
    if isinstance(headers, Marked):
        return Marked(after, headers.registers, headers.source)
    return Marked(after, {})


def _rewritten(
    headers: Headers, changes: Iterable[Callable[[Any], object]], in_frame: bool
) -> Marked:
    """Return the packet after these changes; ``in_frame``: they change its bytes as well."""
    packet = Changing(headers)
    if not in_frame:
        for change in changes:
            change(packet)
        return _with_frame(headers, headers.frame, packet.registers)
    packet.frame = frame = bytearray(headers.frame)
    for change in changes:
        change(packet)
    adjust(headers, frame)
    return _with_frame(headers, bytes(frame), packet.registers)


def _with_frame(headers: Headers, frame: bytes, registers: dict[int, int]) -> Marked:
    """Return a copy of the packet with other bytes and registers; source and offsets are kept."""
    packet = Marked(headers, registers, headers.source if isinstance(headers, Marked) else 0)
    packet.frame = frame
    return packet
