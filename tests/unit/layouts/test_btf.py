"""The BTF parser: every kind is measured, members come out flat, and bad bytes say so."""

from __future__ import annotations

import contextlib

import pytest
from helpers.files.btf_blob import Blob
from hypothesis import given
from hypothesis import strategies as st

from layouts.btf import reader as btf_module
from layouts.btf.reader import Btf, BtfError, BtfKind, Member


def everything(order="<"):
    """One record of each kind, each used where C allows it, then a structure named ``last``."""
    blob = Blob(order=order)
    u8 = blob.integer()
    blob.add(BtfKind.PTR, value=u8)
    blob.array(u8, 3)
    blob.struct("plain", 4, ("a", u8, 0), ("b", u8, 8))
    blob.union("either", 1, ("a", u8, 0))
    blob.add(BtfKind.ENUM, "colour", 4, 1, tail=blob.pack("II", blob.string("RED"), 0))
    blob.add(BtfKind.FWD, "declared")
    blob.add(BtfKind.TYPEDEF, "octet", u8)
    blob.add(BtfKind.VOLATILE, value=u8)
    blob.add(BtfKind.CONST, value=u8)
    blob.add(BtfKind.RESTRICT, value=u8)
    proto = blob.add(BtfKind.FUNC_PROTO, value=u8, vlen=2, tail=blob.pack("IIII", 0, u8, 0, u8))
    # The vlen of a function is its linkage: nothing follows.
    blob.add(BtfKind.FUNC, "call", proto, 1)
    var = blob.add(BtfKind.VAR, "counter", u8, tail=blob.pack("I", 1))
    blob.add(BtfKind.DATASEC, ".data", 1, 1, tail=blob.pack("III", var, 0, 1))
    blob.add(BtfKind.FLOAT, "double", 8)
    blob.add(BtfKind.DECL_TAG, "tag", u8, tail=blob.pack("I", 0))
    blob.add(BtfKind.TYPE_TAG, "rcu", u8)
    big = blob.pack("III", blob.string("BLUE"), 0, 1)
    blob.add(BtfKind.ENUM64, "colours", 8, 1, tail=big)
    blob.struct("last", 1, ("a", u8, 0))
    return blob


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_is_measured_in_either_byte_order(order):
    btf = Btf(everything(order).data())
    (last,) = btf.find("last")
    assert last == btf.count - 1 == len(BtfKind)
    assert {btf.kind(number) for number in range(btf.count)} == set(BtfKind)
    assert btf.members(last) == [Member("a", 0, 8, 1)]
    assert btf.name(last) == "last"


def test_a_longer_header_is_skipped():
    assert Btf(everything().data(header=32, extra=bytes(8))).find("last")


def test_aliases_come_off():
    blob = Blob()
    u8 = blob.integer()
    number = u8
    for kind in (
        BtfKind.TYPEDEF,
        BtfKind.CONST,
        BtfKind.VOLATILE,
        BtfKind.RESTRICT,
        BtfKind.TYPE_TAG,
    ):
        number = blob.add(kind, "", number)
    blob.struct("holder", 2, ("x", blob.array(number, 2), 0))
    btf = Btf(blob.data())
    assert btf.resolve(number) == u8
    assert btf.size(number) == 1
    (member,) = btf.members(btf.find("holder")[0])
    assert (member.width, btf.element(member.type_id)) == (16, u8)


def test_sizes():
    blob = Blob()
    u8 = blob.integer()
    table = blob.array(blob.array(blob.integer("u32", 4), 3), 2)
    pointer = blob.add(BtfKind.PTR, value=0)
    flexible = blob.array(u8, 0)
    enum = blob.add(BtfKind.ENUM, "e", 4)
    btf = Btf(blob.data())
    assert [btf.size(n) for n in (table, pointer, flexible, enum)] == [24, 8, 0, 4]


def test_anonymous_parts_are_flattened_in_place():
    blob = Blob()
    u8, u32 = blob.integer(), blob.integer("u32", 4)
    inner = blob.struct("", 4, ("c", u8, 0), ("d", u8, 24))
    either = blob.union("", 4, ("b", u32, 0), ("", inner, 0))
    blob.struct("outer", 12, ("a", u8, 0), ("", either, 32), ("named", inner, 64))
    btf = Btf(blob.data())
    assert btf.members(btf.find("outer")[0]) == [
        Member("a", 0, 8, u8),
        Member("b", 32, 32, u32),
        Member("c", 32, 8, u8),
        Member("d", 56, 8, u8),
        Member("named", 64, 32, inner),
    ]


def test_bit_fields_have_their_own_width_and_nameless_ones_are_left_out():
    blob = Blob()
    u8 = blob.integer()
    members = (("a", u8, 0, 3), ("", u8, 3, 2), ("b", u8, 5, 3), ("whole", u8, 8, 0))
    blob.struct("flags", 2, *members, flag=True)
    btf = Btf(blob.data())
    found = btf.members(btf.find("flags")[0])
    assert [(m.name, m.offset, m.width) for m in found] == [
        ("a", 0, 3),
        ("b", 5, 3),
        ("whole", 8, 8),
    ]


def test_offsets_take_the_bit_field_width_where_there_is_none():
    blob = Blob()
    blob.struct("big", 1 << 22, ("far", blob.integer(), (1 << 24) + 8))
    btf = Btf(blob.data())
    assert btf.members(btf.find("big")[0]) == [Member("far", (1 << 24) + 8, 8, 1)]


class TestSplit:
    def test_numbers_and_strings_go_on_from_the_base(self):
        base = Blob()
        u8 = base.integer()
        shared = base.struct("shared", 2, ("low", u8, 0), ("table", base.array(u8, 1), 8))
        module = Blob(base)
        own = module.struct("own", 3, ("shared", shared, 0), ("u8", u8, 16))
        vmlinux = Btf(base.data())
        btf = Btf(module.data(), vmlinux)
        assert own == vmlinux.count
        assert btf.find("own") == [own]
        assert [m.name for m in btf.members(own)] == ["shared", "u8"]
        assert [(m.name, m.width) for m in btf.members(shared)] == [("low", 8), ("table", 8)]
        assert vmlinux.find("own") == []

    def test_the_modules_own_structure_comes_first(self):
        base, names = Blob(), []
        names.append(base.struct("twice", 1))
        module = Blob(base)
        names.append(module.struct("twice", 2))
        assert Btf(module.data(), Btf(base.data())).find("twice") == names[::-1]

    def test_a_base_of_the_other_byte_order_is_refused(self):
        with pytest.raises(BtfError, match="byte order"):
            Btf(everything("<").data(), Btf(everything(">").data()))


class TestDamaged:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (b"", "too short"),
            (everything().data()[:23], "too short"),
            (everything().data(magic=0xEB9E), "magic 9eeb"),
            (everything().data(version=2), "version 2"),
            (everything().data(header=16), "outside"),
            (everything().data(header=25), "outside"),
            (everything().data()[:-1], "outside"),
        ],
    )
    def test_header(self, data, message):
        with pytest.raises(BtfError, match=message):
            Btf(data)

    def test_kind_that_nobody_knows(self):
        blob = Blob()
        blob.add(20)
        with pytest.raises(BtfError, match="type 1: unknown kind 20"):
            Btf(blob.data())

    def test_void_is_no_record(self):
        blob = Blob()
        blob.add(0)
        with pytest.raises(BtfError, match="unknown kind 0"):
            Btf(blob.data())

    @pytest.mark.parametrize(("cut", "message"), [(1, "STRUCT runs over"), (13, "header runs")])
    def test_record_that_runs_over_the_end(self, cut, message):
        blob = Blob()
        blob.struct("s", 1, ("a", 1, 0))
        blob.types = blob.types[:-cut]
        with pytest.raises(BtfError, match=message):
            Btf(blob.data())

    def test_name_outside_the_strings(self):
        blob = Blob()
        blob.struct("s", 1)
        blob.strings = b"\0"
        with pytest.raises(BtfError, match="no string at 1 of 1"):
            Btf(blob.data())

    @pytest.mark.parametrize("name", ["endless" * 100, "s"])
    def test_name_without_an_end(self, name):
        blob = Blob()
        blob.struct(name, 1)
        blob.strings = blob.strings[:-1]
        with pytest.raises(BtfError, match="no string at 1"):
            Btf(blob.data())

    def test_type_that_is_not_there(self):
        btf = Btf(everything().data())
        for number in (-1, btf.count):
            with pytest.raises(BtfError, match=f"type {number} of {btf.count}"):
                btf.kind(number)

    @pytest.mark.parametrize("kind", [BtfKind.FWD, BtfKind.FUNC, BtfKind.DATASEC])
    def test_type_without_a_size(self, kind):
        blob = Blob()
        number = blob.add(kind)
        with pytest.raises(BtfError, match=f"{kind.name} has no size"):
            Btf(blob.data()).size(number)

    def test_type_without_members(self):
        blob = Blob()
        number = blob.integer()
        with pytest.raises(BtfError, match="INT has no members"):
            Btf(blob.data()).members(number)


class TestCycles:
    def test_typedefs(self):
        blob = Blob()
        blob.add(BtfKind.TYPEDEF, "a", 2)
        blob.add(BtfKind.CONST, "", 1)
        with pytest.raises(BtfError, match="names for one type"):
            Btf(blob.data()).resolve(1)

    def test_arrays(self):
        blob = Blob()
        number = blob.array(1, 2)
        btf = Btf(blob.data())
        with pytest.raises(BtfError, match="dimensions"):
            btf.size(number)
        with pytest.raises(BtfError, match="dimensions"):
            btf.element(number)

    def test_anonymous_structures(self):
        blob = Blob()
        number = blob.struct("", 1, ("", 1, 0))
        with pytest.raises(BtfError, match="nested more than 32 deep"):
            Btf(blob.data()).members(number)

    def test_nesting_that_doubles_at_each_level(self, monkeypatch):
        """No level is too deep, no record too big; only the sum of all of them is."""
        monkeypatch.setattr(btf_module, "_MAX_MEMBERS", 1000)
        blob = Blob()
        number = blob.struct("", 0)
        for _ in range(20):
            number = blob.struct("", 0, ("", number, 0), ("", number, 0))
        with pytest.raises(BtfError, match="more than 1000 members"):
            Btf(blob.data()).members(number)


@given(
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), min_size=1, max_size=8),
    st.none() | st.integers(0, 400),
)
def test_damage_never_gives_anything_but_a_btf_error(pokes, length):
    data = bytearray(everything().data())
    for at, value in pokes:
        data[at % len(data)] = value
    with contextlib.suppress(BtfError):
        btf = Btf(bytes(data[:length]))
        for name in ("plain", "either", "last"):
            for number in btf.find(name):
                btf.size(number)
                btf.members(number)
