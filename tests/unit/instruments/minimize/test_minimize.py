"""Delta debugging, and the search for a minimal candidate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.instruments.minimize.ddmin import ddmin
from emu.instruments.minimize.search import Search


@given(st.integers(1, 40), st.data())
def test_ddmin_finds_what_matters(count, data):
    items = list(range(count))
    matters = set(data.draw(st.lists(st.sampled_from(items), min_size=1, max_size=3)))
    asked = []

    def fails(chosen):
        assert chosen not in asked
        asked.append(chosen)
        return matters <= set(chosen)

    assert ddmin(items, fails) == sorted(matters)


def test_ddmin_when_nothing_matters():
    assert ddmin([1, 2, 3], lambda _: True) == []
    assert ddmin([], lambda _: True) == []


class TestSearch:
    """Trials are made once each, at most so many, and the last that has shown it is the result."""

    def search(self, shows, most=None):
        self.tried = []

        def trial(candidate):
            self.tried.append(candidate)
            return shows(candidate)

        return Search(trial, frozenset, most)

    def test_each_is_tried_once(self):
        search = self.search(lambda some: "a" in some)
        strategy = lambda does: [does(["a", "b"]), does(["b", "a"]), does(["a"]), does(["b"])]  # noqa: E731
        assert search.run(strategy) == ["a"]
        assert self.tried == [["a", "b"], ["a"], ["b"]]
        assert not search.is_cut

    @pytest.mark.parametrize(("most", "best"), [(0, None), (1, [1, 2, 3]), (2, [1, 2])])
    def test_it_is_cut_with_the_best_so_far(self, most, best):
        search = self.search(lambda some: 1 in some, most)

        def strategy(does):
            for size in (3, 2, 1):
                does([1, 2, 3][:size])

        assert search.run(strategy) == best
        assert search.is_cut
        assert len(self.tried) == most

    def test_what_does_not_show_it_is_no_result(self):
        assert self.search(lambda _: False).run(lambda does: does([1])) is None

    def test_other_exceptions_come_through(self):
        with pytest.raises(ZeroDivisionError):
            self.search(lambda _: 1 / 0).run(lambda does: does([1]))
