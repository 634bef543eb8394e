"""The names of the kinds of objects, which users read and type."""

from emu.device.objects.object import Object, kinds_below
from emu.device.state import tables  # noqa: F401  (declares the kinds)


def test_words_of_a_kind_are_separated_by_spaces():
    """`flow table` and `scheduling element`, and neither of them otherwise."""
    kinds = list(kinds_below(Object))
    assert "scheduling element" in kinds
    assert [kind for kind in kinds if "_" in kind or "-" in kind] == []
