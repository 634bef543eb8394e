"""The layout check: it is silent about equal structures and finds each kind of difference."""

from __future__ import annotations

import pytest
from helpers.files.btf_blob import Blob
from helpers.structures import structure

from layouts.btf.check import check
from layouts.btf.kernel_differences import KNOWN
from layouts.btf.known import Known
from layouts.btf.reader import Btf
from layouts.btf.report import Difference, What
from layouts.prm import array, bits, nested, octets, rsvd, tail
from layouts.registry import collect, structures

RELEASE = "6.12.1-test"


def report(blob, *prms, known=()):
    return check({prm.__name__: prm for prm in prms}, RELEASE, [Btf(blob.data())], known)


def differences(blob, *prms):
    found = report(blob, *prms)
    assert found.structures == len(prms)
    assert found.holds == (not found.differences)
    return found.differences


@pytest.fixture
def blob():
    """The driver's side: a structure as in mlx5_ifc.h, and what it is made of."""
    blob = Blob()
    inner = blob.ifc("inner", ("low", 4), ("reserved_at_4", 4))
    other = blob.ifc("other", ("high", 3), ("low", 5))
    either = blob.union("mlx5_ifc_either_bits", 16, ("one", inner, 0), ("two", other, 0))
    blob.ifc(
        "outer",
        ("a", 3),
        ("reserved_at_3", 5),
        ("b", 8),
        ("inner", inner, 8),
        ("pair", blob.array(inner, 2), 16),
        ("either", either, 16),
        ("word", 32),
        ("late", 8),
        ("pas", blob.array(blob.u8, 0), 0),
    )
    return blob


inner = structure("inner", ("low", bits(4)), rsvd(4))

outer = structure(
    "outer",
    *(("a", bits(3)), rsvd(5), ("b", bits(8)), ("inner", inner), ("pair", array(2, nested(inner)))),
    *(("either", octets(2)), ("word", bits(32)), ("late", bits(8)), ("pas", tail(bits(64)))),
)


def replace(**fields):
    """``outer`` with other constructs under some names."""
    return structure("outer", *(fields.get(name, (name, kind)) for name, kind in outer.declared))


def test_equal_structures(blob):
    found = report(blob, outer, inner)
    assert found.holds
    assert found.explained == found.unmodelled == []


class TestEachKind:
    def test_missing_structure(self, blob):
        absent = structure("absent", bits(16))
        assert differences(blob, absent) == [Difference(What.STRUCTURE, "absent", 16, None)]

    def test_missing_field(self, blob):
        renamed = replace(b=("c", bits(8)))
        assert differences(blob, renamed) == [Difference(What.FIELD, "outer.c", 8, None)]

    def test_offset(self, blob):
        swapped = replace(a=("b", bits(8)), b=rsvd(3))
        assert Difference(What.OFFSET, "outer.b", 0, 8) in differences(blob, swapped)

    def test_width(self, blob):
        wide = structure("inner", ("low", bits(5)), rsvd(3))
        assert differences(blob, wide) == [Difference(What.WIDTH, "inner.low", 5, 4)]

    @pytest.mark.parametrize(("more", "size"), [((), 8), ((rsvd(16),), 24)])
    def test_size(self, blob, more, size):
        blob.ifc("short", ("low", 8), ("reserved_at_8", 8))
        prm = structure("short", ("low", bits(8)), *more)
        assert differences(blob, prm) == [Difference(What.SIZE, "short", size, 16)]

    @pytest.mark.parametrize("mine", [array(2, bits(64)), bits(8)])
    def test_their_flexible_array_is_not_one_of_ours(self, blob, mine):
        found = differences(blob, replace(pas=("pas", mine)))
        assert [(d.what, d.name, d.theirs) for d in found] == [
            (What.WIDTH, "outer.pas", 0),
            (What.SIZE, "outer", 96),
        ]

    def test_our_flexible_array_is_not_one_of_theirs(self, blob):
        blob.ifc("fixed", ("a", 8), ("pas", 64))
        prm = structure("fixed", ("a", bits(8)), ("pas", tail(bits(64))))
        assert differences(blob, prm) == [
            Difference(What.WIDTH, "fixed.pas", 0, 64),
            Difference(What.SIZE, "fixed", 8, 72),
        ]

    def test_flexible_array_elsewhere(self, blob):
        blob.ifc("early", ("a", 8), ("pas", blob.array(blob.u8, 0), 0), ("reserved_at_8", 8))
        prm = structure("early", ("a", bits(8)), rsvd(8), ("pas", tail(bits(64))))
        assert differences(blob, prm) == [Difference(What.OFFSET, "early.pas", 16, 8)]


class TestNested:
    def test_a_structure_of_the_run_is_compared_once(self, blob):
        wrong = structure("inner", ("high", bits(4)), rsvd(4))
        found = differences(
            blob, replace(inner=("inner", wrong), pair=("pair", array(2, nested(wrong)))), wrong
        )
        assert found == [Difference(What.FIELD, "inner.high", 0, None)]

    def test_a_structure_of_our_own_is_compared_in_place(self, blob):
        own = structure("inner", ("high", bits(4)), rsvd(4))
        found = differences(
            blob, replace(inner=("inner", own), pair=("pair", array(2, nested(own))))
        )
        assert [d.name for d in found] == ["outer.inner.high", "outer.pair.high"]

    def test_another_structure_than_theirs_is_compared_in_place(self, blob):
        other = structure("other", ("high", bits(3)), ("low", bits(5)))
        found = differences(blob, replace(inner=("inner", other)), other)
        assert found == [
            Difference(What.FIELD, "outer.inner.high", 0, None),
            Difference(What.OFFSET, "outer.inner.low", 3, 0),
            Difference(What.WIDTH, "outer.inner.low", 5, 4),
        ]

    def test_items_of_another_size(self, blob):
        wide = structure("wide", ("low", bits(4)), rsvd(12))
        found = differences(blob, replace(pair=("pair", array(1, nested(wide)))))
        assert found == [Difference(What.SIZE, "outer.pair", 16, 8)]

    def test_a_word_that_we_split_is_compared_as_a_whole(self, blob):
        split = structure("split", ("high", bits(16)), ("low", bits(16)))
        assert differences(blob, replace(word=("word", split)), split) == []
        short = structure("split", ("high", bits(16)), ("low", bits(8)))
        found = differences(blob, replace(word=("word", short)))
        assert Difference(What.WIDTH, "outer.word", 24, 32) in found

    def test_a_union_is_compared_as_a_whole(self, blob):
        arm = structure("arm", ("one", bits(16)))
        assert differences(blob, replace(either=("either", arm))) == []

    def test_a_union_does_not_stand_in_for_a_structure(self, blob):
        arm = structure("arm", ("one", bits(16)))
        found = differences(blob, replace(either=("either", arm)), arm)
        assert found == [Difference(What.STRUCTURE, "arm", 16, None)]


class TestPlainC:
    @pytest.fixture
    def blob(self):
        blob = Blob()
        u8, be32 = blob.integer(), blob.integer("__be32", 4)
        either = blob.union("", 4, ("imm", be32, 0), ("key", be32, 0))
        arm = blob.struct("", 8, ("va", be32, 0), ("flag", u8, 32), ("bit", u8, 40, 3), flag=True)
        blob.struct(
            "mlx5_segment",
            20,
            *(("opcode", be32, 0), ("rsvd", blob.array(u8, 4), 32), ("", either, 64)),
            ("arm", arm, 96),
        )
        return blob

    def test_equal(self, blob):
        word = structure("word", ("index", bits(16)), ("op", bits(16)))
        prm = structure(
            "segment",
            *(("opcode", word), rsvd(32), ("key", bits(32)), ("arm", octets(8))),
            c_name="mlx5_segment",
        )
        found = report(blob, prm, word)
        assert found.holds
        assert found.unmodelled == []

    def test_a_structure_inside_is_found_by_its_path(self, blob):
        fields = (("va", bits(32)), ("flag", bits(8)), ("bit", bits(3)), rsvd(21))
        assert differences(blob, structure("arm", *fields, c_name="mlx5_segment.arm")) == []

    @pytest.mark.parametrize("path", ["none", "opcode", "arm.va", "arm.none", "none.arm"])
    def test_path_to_nowhere(self, blob, path):
        prm = structure("arm", bits(64), c_name=f"mlx5_segment.{path}")
        assert differences(blob, prm) == [Difference(What.STRUCTURE, "arm", 64, None)]

    def test_a_split_that_names_a_c_structure_must_find_it(self, blob):
        word = structure("word", ("index", bits(32)), c_name="mlx5_word")
        prm = structure("arm", ("va", word), rsvd(32), c_name="mlx5_segment.arm")
        assert differences(blob, prm, word) == [Difference(What.STRUCTURE, "word", 32, None)]


def test_unmodelled_fields_are_listed_and_no_difference(blob):
    found = report(blob, replace(a=rsvd(3), b=rsvd(8), pas=rsvd(0)))
    assert found.holds
    assert found.unmodelled == ["outer.a", "outer.b", "outer.pas"]


def test_the_first_binary_that_has_a_structure_counts():
    vmlinux = Blob()
    vmlinux.ifc("in_kernel", ("a", 8))
    module = Blob(vmlinux)
    module.struct("mlx5_ifc_in_module_bits", 8, ("a", module.array(1, 8), 0))
    base = Btf(vmlinux.data())
    prms = {name: structure(name, ("a", bits(8))) for name in ("in_kernel", "in_module")}
    assert check(prms, RELEASE, [base, Btf(module.data(), base)]).holds


class TestKnownDifferences:
    known = Known(("6.12",), What.WIDTH, "was wider", ("inner.low",))

    def test_explained(self, blob):
        wide = structure("inner", ("low", bits(5)), rsvd(3))
        found = report(blob, wide, known=[self.known])
        assert found.holds
        assert found.explained == [(Difference(What.WIDTH, "inner.low", 5, 4), "was wider")]

    def test_one_that_is_not_needed_is_an_error(self, blob):
        found = report(blob, inner, known=[self.known])
        assert not found.holds
        assert found.unused == [(What.WIDTH, "inner.low")]

    def test_one_of_another_kind_explains_nothing(self, blob):
        wide = structure("inner", ("low", bits(5)), rsvd(3))
        found = report(blob, wide, known=[Known(("6.12",), What.FIELD, "gone", ("inner.low",))])
        assert [d.what for d in found.differences] == [What.WIDTH]
        assert found.unused == [(What.FIELD, "inner.low")]

    def test_one_of_another_kernel_is_left_alone(self, blob):
        assert report(blob, inner, known=[Known(("6.1",), What.SIZE, "grew", ("inner",))]).holds

    @pytest.mark.parametrize(
        ("release", "concerned"),
        [
            ("6.1.0-50-amd64", True),
            ("6.1", True),
            ("6.1-rc1", True),
            ("7.2.13+deb14-amd64", True),
            ("6.12.107+deb13-amd64", False),
            ("16.1.0", False),
            ("6.10.1", False),
        ],
    )
    def test_releases(self, release, concerned):
        assert Known(("6.1", "7.2"), What.SIZE, "", ()).concerns(release) == concerned
        assert Known((), What.SIZE, "", ()).concerns(release)


class TestTheTable:
    """The known differences that come with the layouts."""

    def test_each_has_a_reason_and_stands_once(self):
        seen = set()
        for entry in KNOWN:
            assert entry.reason
            for key in ((entry.releases, entry.what, name) for name in entry.names):
                assert key not in seen
                seen.add(key)

    def test_each_names_what_we_declare(self):
        declared = {}
        for prm in structures().values():
            declared[prm.__name__] = {What.STRUCTURE, What.SIZE}
            for field in prm.fields:
                declared[f"{prm.__name__}.{field.name}"] = {What.FIELD, What.OFFSET, What.WIDTH}
        wrong = [
            (entry.what, name)
            for entry in KNOWN
            for name in entry.names
            if entry.what not in declared.get(name, ())
        ]
        assert not wrong


class TestRegistry:
    def test_one_structure_under_two_names_is_one(self):
        assert collect([{"a": inner, "b": inner, "c": 1}, {"d": inner}]) == {"inner": inner}

    def test_two_structures_of_one_name_are_refused(self):
        with pytest.raises(ValueError, match="inner is declared twice"):
            collect([{"a": inner}, {"b": structure("inner", bits(8))}])
