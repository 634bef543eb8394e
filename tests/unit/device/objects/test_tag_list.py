"""A list of tags against a second model: one list of entries with the count they were added at."""

from hypothesis import given
from hypothesis import strategies as st

from emu.device.objects.queues.tag_list import TagEntry, TagList

LOG_SIZE = 3
TAGS = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), TAGS, st.integers(0, 3), st.booleans()),
        st.tuples(st.just("remove"), st.integers(0, 7)),
        st.tuples(st.just("sync"), st.integers(-2, 0)),
        st.tuples(st.just("message"), TAGS),
        st.tuples(st.just("fill")),
        st.tuples(st.just("lost")),
    ),
    max_size=60,
)


class Model:
    """What the two sides have agreed about: a message may take an entry if all unexpected messages
    before it had been handled when the entry was added, or at some time since."""

    def __init__(self):
        self.entries = []  # [index, tag, mask, is_open]
        self.handled = self.come = 0

    def agree(self):
        if self.handled == self.come:
            for entry in self.entries:
                entry[3] = True

    def take(self, tag):
        for entry in self.entries:
            if entry[3] and (tag & entry[2]) == entry[1]:
                self.entries.remove(entry)
                return entry[0]
        return None


@given(STEPS)
def test_like_a_second_model(steps):
    tags, model = TagList(LOG_SIZE), Model()
    free, filling = list(range(8)), []
    for kind, *more in steps:
        if kind == "add":
            tag, mask, counts = more
            if len(free) < 2:
                assert tags.next_index == free[0]
                continue
            if counts:
                tags.synchronize(model.come)
                model.handled = model.come
                model.agree()
            entry = TagEntry(tag, mask, ())
            index = free.pop(0)
            assert not tags.is_used(index)
            tags.append(entry, free[0])
            assert entry.index == index
            model.entries.append([index, tag, mask, model.handled == model.come])
        elif kind == "remove":
            found = [entry for entry in model.entries if entry[0] == more[0]]
            assert tags.remove(more[0]) == bool(found)
            for entry in found:
                model.entries.remove(entry)
                free.append(entry[0])
        elif kind == "sync":
            model.handled = model.come + more[0]
            tags.synchronize(model.handled)
            model.agree()
        elif kind == "message":
            expected = model.take(more[0])
            found = tags.match(more[0])
            assert (None if found is None else found.index) == expected
            if found is None:
                tags.count_unexpected()
                model.come += 1
                model.agree()
            else:
                assert tags.is_used(found.index)
                assert not tags.remove(found.index)
                filling.append(found)
        elif kind == "fill" and filling:
            done = filling.pop(0)
            tags.release(done)
            assert not tags.is_used(done.index)
            free.append(done.index)
        elif kind == "lost":
            tags.count_unexpected(-1)
            model.come -= 1
            model.agree()
        assert tags.hw_phase == model.come & 0xFFFF
        assert tags.is_synchronous == ((model.come - model.handled) & 0xFFFF == 0)
        assert tags.count == len(model.entries)
        assert {n for n in range(8) if tags.is_used(n)} == set(range(8)) - set(free)
