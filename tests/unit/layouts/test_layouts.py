"""Every declared structure: construct and the views read and write the same bytes.

Then the edges of fields, on structures made for them: what is refused, words at a buffer's end.
"""

from __future__ import annotations

from random import Random

import construct as c
import pytest
from helpers.each import for_each
from helpers.structures import structure
from hypothesis import given
from hypothesis import strategies as st

from layouts.fields import ArrayView, Items, Nested, Number
from layouts.prm import Prm, array, bits, nested, octets, rsvd, tail
from layouts.registry import structures

every_structure = for_each(structures())


def plain(value):
    """What construct parsed, as the plain values that ``as_dict`` gives."""
    if isinstance(value, c.Container):
        return {name: plain(item) for name, item in value.items() if not name.startswith("_")}
    return [plain(item) for item in value] if isinstance(value, list) else value


def contents(size):
    """``size`` bytes: random ones, and the two patterns that are worth most."""
    noise = st.integers(0, 2**32).map(lambda seed: Random(seed).randbytes(size))
    return st.sampled_from((bytes(size), b"\xff" * size)) | noise


def samples(prm, *extras):
    """As ``contents``, for each number of bytes that follow: always the same ones for a structure.

    Eight hundred structures leave hypothesis little to find in each, but cost it minutes.
    """
    noise = Random(prm.__name__)
    for extra in extras:
        size = prm.size + extra
        yield from (bytes(size), b"\xff" * size, noise.randbytes(size))
    yield noise.randbytes(prm.size)


def is_tail(kind):
    return isinstance(kind, Items) and kind.count is None


def has_tail(prm):
    """Whether a flexible array ends the structure, or the last structure in it."""
    last = prm.fields[-1].kind if prm.fields else None
    return has_tail(last.prm) if isinstance(last, Nested) else is_tail(last)


@every_structure
def test_views_and_construct_read_and_write_the_same(prm):
    extras = (0, 8, 33) if has_tail(prm) else (0,)
    for raw in samples(prm, *extras):
        values = prm.view(raw).as_dict()
        assert values == plain(prm.parse(raw))
        built = prm.build(values)
        assert bytes(prm.new(len(raw) - prm.size, **values).buf)[: len(built)] == built
        # Reserved bits are written as zero, all others come back.
        assert prm.view(built).as_dict() == values


@every_structure
def test_what_follows_a_structure_is_not_its_own(prm):
    if not has_tail(prm):
        raw = Random(prm.__name__).randbytes(prm.size + 33)
        assert prm.view(raw).as_dict() == prm.view(raw[: prm.size]).as_dict()


@every_structure
def test_a_copy_has_the_same_bytes_and_a_buffer_of_its_own(prm):
    for raw in samples(prm, 3):
        copy = prm.view(b"\0\0" + raw, 2).copy()
        assert (type(copy), copy.buf, copy.base) == (prm, raw[: prm.size], 0)
        copy.buf[:] = bytes(prm.size)


@every_structure
def test_writing_a_field_changes_that_field_alone(prm):
    before = b"\xff" * (1 + prm.size + 1)
    for field in prm.fields:
        after = bytearray(before)
        setattr(prm.view(after, 1), field.name, getattr(prm.view(bytes(prm.size)), field.name))
        kept = ~(((1 << field.width) - 1) << (8 + prm.bit_length - field.offset - field.width))
        assert int.from_bytes(after, "big") == int.from_bytes(before, "big") & kept


@every_structure
def test_what_does_not_fit_a_field_is_refused_and_changes_nothing(prm):
    view = prm.new()
    for field in prm.fields:
        for value in misfits(field):
            with pytest.raises(ValueError, match=r"does not fit|wants"):
                setattr(view, field.name, value)
    assert not any(view.buf)


def misfits(field):
    """Values that a field has no room for."""
    if isinstance(field.kind, Number):
        return [1 << field.width, -1]
    if is_tail(field.kind):
        return [[0]]
    if isinstance(field.kind, Items):
        return [[0] * (field.kind.count - 1), [0] * (field.kind.count + 1)]
    return [bytes(field.width // 8 - 1), bytes(field.width // 8 + 1)]


@every_structure
def test_a_buffer_that_is_too_short_is_refused(prm):
    with pytest.raises(ValueError, match=f"{prm.__name__}: {prm.size - 1} bytes"):
        prm.view(bytes(prm.size - 1))
    with pytest.raises(ValueError, match=f"wants {prm.size}"):
        prm.view(bytes(prm.size + 7), 8)
    with pytest.raises(c.StreamError):
        prm.parse(bytes(prm.size - 1))


class TestViews:
    pair = structure("pair", ("high", bits(4)), ("low", bits(4)))
    whole = structure(
        "whole",
        *(
            ("raw", octets(2)),
            ("pair", pair),
            ("pairs", array(2, nested(pair))),
            ("word", bits(24)),
        ),
        ("rest", tail(bits(16))),
    )

    def test_nested_structures_take_mappings_views_and_bytes(self):
        view = self.whole.new(pair={"high": 1, "low": 2})
        assert view.pair.as_dict() == {"high": 1, "low": 2}
        view.pairs = [b"\x34", view.pair]
        assert bytes(view) == bytes.fromhex("0000 12 34 12 000000")

    def test_writing_through_a_view_reaches_the_buffer(self):
        buffer = bytearray(4 + self.whole.size + 5)
        view = self.whole.view(buffer, 4)
        view.pairs[1].low = 0xF
        view.rest[1] = 0xABCD
        assert buffer.hex() == "00" * 4 + "00000000 0f000000 0000abcd 00".replace(" ", "")

    def test_a_tail_is_as_long_as_the_buffer_allows(self):
        lengths = [len(self.whole.new(extra).rest) for extra in (0, 1, 2, 5)]
        assert lengths == [0, 0, 1, 2]

    def test_index_outside_an_array(self):
        pairs = self.whole.new().pairs
        assert isinstance(pairs, ArrayView)
        assert len(list(pairs)) == 2
        for index in (-1, 2):
            with pytest.raises(IndexError):
                pairs[index]

    def test_read_only_buffer(self):
        view = self.whole.view(bytes(self.whole.size))
        with pytest.raises(TypeError):
            view.word = 1

    def test_names_show_in_the_repr(self):
        assert repr(self.pair.new(low=7)) == "<pair {'high': 0, 'low': 7}>"

    def test_unknown_field(self):
        with pytest.raises(AttributeError):
            self.pair.new(middle=1)

    @pytest.mark.parametrize("value", [2, 2.0, None])
    def test_a_number_is_no_octets(self, value):
        with pytest.raises(TypeError):
            self.whole.new(raw=value)
        with pytest.raises(TypeError):
            self.whole.new(pair=value)

    @pytest.mark.parametrize("size", range(1, 10))
    def test_every_field_of_every_odd_structure(self, size):
        """A word that holds a field may not reach over the structure's end."""
        for offset in range(size * 8):
            for width in range(1, size * 8 - offset + 1):
                after = size * 8 - offset - width
                prm = structure("odd", rsvd(offset), ("field", bits(width)), rsvd(after))
                ones = (1 << width) - 1
                view = prm.view(bytearray(3 + size), 3)
                view.field = ones
                assert int.from_bytes(view.buf, "big") == ones << after
                view.buf[:] = b"\xff" * (3 + size)
                assert view.field == ones
                view.field = 0
                assert view.field == 0
                assert int.from_bytes(view.buf, "big") == (1 << 8 * (3 + size)) - 1 - (
                    ones << after
                )


class TestPackers:
    entry = structure(
        "entry",
        *(("nibble", bits(4)), ("low", bits(4)), rsvd(8), ("word", bits(16)), ("number", bits(64))),
        *(("mac", octets(6)), ("count", bits(24)), ("owner", bits(8))),
    )

    @given(contents(entry.size))
    def test_they_read_what_views_read(self, raw):
        names = ("word", "number", "mac", "owner")
        view = self.entry.view(raw)
        packer = self.entry.packer(*names)
        assert packer.size == self.entry.size
        assert packer.unpack(raw) == tuple(getattr(view, name) for name in names)

    @given(contents(entry.size))
    def test_they_write_what_views_write_and_zeros_elsewhere(self, raw):
        view = self.entry.view(raw)
        packed = self.entry.packer("word", "mac").pack(view.word, view.mac)
        assert packed == bytes(self.entry.new(word=view.word, mac=view.mac))

    def test_neighbours_are_one_number(self):
        halves = structure("halves", ("high", bits(32)), ("low", bits(32)))
        joined = halves.packer("high+low").pack(0x0123_4567_89AB_CDEF)
        assert joined == bytes(halves.new(high=0x0123_4567, low=0x89AB_CDEF))

    def test_fields_that_are_no_neighbours(self):
        with pytest.raises(TypeError, match="mac does not follow word"):
            self.entry.packer("word+mac")

    def test_they_end_where_they_are_told(self):
        assert self.entry.packer("word", upto=5).pack(0x1234).hex() == "0000123400"

    @pytest.mark.parametrize("names", [("nibble",), ("low",), ("number", "word"), ("word", "word")])
    def test_fields_without_bytes_of_their_own(self, names):
        with pytest.raises(TypeError, match="does not occupy whole bytes"):
            self.entry.packer(*names)

    @pytest.mark.parametrize("upto", [0, 3])
    def test_end_inside_a_field(self, upto):
        with pytest.raises(TypeError, match="word does not occupy"):
            self.entry.packer("word", upto=upto)

    def test_number_of_an_odd_size(self):
        with pytest.raises(TypeError, match="no number of 24 bits"):
            self.entry.packer("count")

    def test_unknown_field(self):
        with pytest.raises(KeyError):
            self.entry.packer("none")


class TestDeclarations:
    def test_half_a_byte(self):
        with pytest.raises(TypeError, match="half: 4 bits are not whole bytes"):
            structure("half", ("a", bits(4)))

    def test_one_name_twice(self):
        with pytest.raises(TypeError, match="twice: field name a is taken"):
            structure("twice", ("a", bits(8)), ("a", bits(8)))

    @pytest.mark.parametrize("name", ["buf", "as_dict"])
    def test_name_that_views_use(self, name):
        with pytest.raises(TypeError, match="is taken"):
            structure("own", (name, bits(8)))
        assert hasattr(Prm, name)

    def test_items_of_half_bytes(self):
        with pytest.raises(TypeError, match="whole bytes"):
            structure("nibbles", ("a", array(2, bits(4))))


class TestFieldsTogether:
    entry = structure("entry", rsvd(3), ("a", bits(1)), ("b", bits(2)), ("c", bits(5)), rsvd(5))

    @given(a=st.integers(0, 1), b=st.integers(0, 3), c=st.integers(0, 31))
    def test_as_one_number(self, a, b, c):
        view = self.entry.new(a=a, b=b, c=c)
        assert self.entry.together("a", "b", "c")(view) == a << 7 | b << 5 | c
        assert self.entry.together("b")(view) == b

    @given(a=st.integers(0, 1), b=st.integers(0, 3), c=st.integers(0, 31))
    def test_in_the_structure_as_one_number(self, a, b, c):
        number = int.from_bytes(bytes(self.entry.new(a=a, b=b, c=c)), "big")
        for names, value in ((("a",), a), (("c",), c), (("a", "b", "c"), a << 7 | b << 5 | c)):
            shift, mask = self.entry.place(*names)
            assert number >> shift & mask == value

    @pytest.mark.parametrize("names", [("a", "c"), ("b", "a")])
    def test_only_neighbours(self, names):
        with pytest.raises(TypeError, match="does not follow"):
            self.entry.together(*names)


def test_named_size_without_what_is_newer():
    """A field and all behind it left out, also one of a structure inside."""
    inner = structure("inner", ("old", bits(32)), ("newer", bits(32)))
    outer = structure("outer", ("a", bits(32)), ("one", inner), ("b", bits(8)), rsvd(56))
    assert [outer.named_size(name) for name in ("", "b", "one", "one.newer", "one.old")] == [
        16, 12, 4, 8, 4,
    ]  # fmt: skip
