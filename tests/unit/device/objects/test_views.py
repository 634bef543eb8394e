"""Views of memory: what is copied from some into others, however both are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.objects.memory.views import copy, length_of, take_front

CUTS = st.lists(st.integers(0, 20), max_size=4)


def cut(data, cuts):
    """The bytes as views that end at these places."""
    ends = [0, *sorted(cuts), len(data)]
    return [memoryview(data)[start:end] for start, end in pairwise(ends)]


@given(st.binary(min_size=20, max_size=20), CUTS, CUTS, st.integers(0, 10))
def test_every_byte_comes_to_its_place(data, cuts, others, room):
    space = bytearray(20 + room)
    copy(cut(space, others), cut(data, cuts))
    assert space == data + bytes(room)


@pytest.mark.parametrize(("targets", "sources"), [([], [7]), ([7], []), ([], []), ([7], [9])])
def test_one_view_or_several(targets, sources):
    data, space = bytes(range(1, 21)), bytearray(20)
    views = cut(space, targets)
    assert length_of(views) == 20
    copy(views, cut(data, sources))
    assert space == data


class Sink:
    """A place that computes what is put there, as those of keys with signatures are."""

    def __init__(self, space, puts, at=0):
        self.space, self.puts, self.at = space, puts, at

    def __len__(self):
        return len(self.space) - self.at

    def __getitem__(self, span):
        start, stop, _ = span.indices(len(self))
        return Sink(self.space[: self.at + stop], self.puts, self.at + start)

    def __setitem__(self, span, data):
        start = self.at + span.indices(len(self))[0]
        self.space[start : start + len(data)] = data
        self.puts.append(len(data))


@given(st.binary(min_size=20, max_size=20), CUTS, CUTS, st.sets(st.integers(0, 4)))
def test_a_place_that_computes_gets_all_at_once(data, cuts, others, sinks):
    """However many pieces the source is in; some have plain memory beside it."""
    space, puts = bytearray(25), []
    places = [
        Sink(place, puts) if number in sinks else place
        for number, place in enumerate(cut(space, others))
    ]
    copy(places, cut(data, cuts))
    assert space == data + bytes(5)
    assert len(puts) <= len(sinks)


@given(st.binary(min_size=20, max_size=20), CUTS, st.lists(st.integers(1, 20)))
def test_bytes_are_taken_from_the_front(data, cuts, sizes):
    views, at = cut(data, cuts)[::-1], 0
    for size in sizes:
        if at + size > len(data):
            break
        assert b"".join(take_front(views, size)) == data[at : at + size]
        at += size
    assert b"".join(views[::-1]) == data[at:]
