"""Reading and writing guest memory that is granted in several pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.ports import DmaError
from emu.driver.transport.guest_ram import GuestRam
from emu.server.vfio.memory import READ, WRITE, DmaMap

PAGE = 0x1000


@pytest.fixture
def ram():
    ram = GuestRam(8 * PAGE)
    yield ram
    ram.close()


@pytest.fixture
def memory(ram):
    """Pages 0 and 1 in reverse order in the file, page 2 read-only, page 4 without a file."""
    memory = DmaMap()
    memory.map(0 * PAGE, PAGE, 1 * PAGE, READ | WRITE, ram.fd)
    memory.map(1 * PAGE, PAGE, 0 * PAGE, READ | WRITE, ram.fd)
    memory.map(2 * PAGE, PAGE, 2 * PAGE, READ, ram.fd)
    memory.map(4 * PAGE, PAGE, 0, READ | WRITE, None)
    yield memory
    memory.clear()


def test_write_over_a_seam(memory, ram):
    memory.write(PAGE - 3, b"abcdef")
    assert ram.bytes[2 * PAGE - 3 : 2 * PAGE] == b"abc"
    assert ram.bytes[0:3] == b"def"
    assert memory.read(PAGE - 3, 6) == b"abcdef"


@pytest.mark.parametrize("source", [b"abcd", bytearray(b"abcd"), memoryview(b"abcd")])
@pytest.mark.parametrize("iova", [0, PAGE - 2])
def test_any_buffer_can_be_written(memory, source, iova):
    for _ in range(2):
        memory.write(iova, source)
        assert memory.read(iova, 4) == b"abcd"


def test_segments_over_a_seam(memory, ram):
    first, second = memory.segments(PAGE - 3, 6)
    first[:] = b"abc"
    second[:] = b"def"
    assert (first.format, first.readonly) == ("B", False)
    assert memory.read(PAGE - 3, 6) == b"abcdef"
    assert [len(view) for view in memory.segments(0, 2 * PAGE)] == [PAGE, PAGE]


def test_equal_views_inside_one_mapping(ram):
    """Once the mapping has been used; then of all ranges or of none."""
    memory = DmaMap()
    memory.map(0, 6 * PAGE, 2 * PAGE, READ | WRITE, ram.fd)
    starts = [5 * PAGE, PAGE, 3 * PAGE]
    assert memory.equal_views(starts, PAGE) == []
    memory.view(0, 1)
    views = memory.equal_views(starts, PAGE)
    for number, view in enumerate(views, 1):
        view[:] = bytes([number]) * PAGE
    assert [ram.bytes[start + 2 * PAGE] for start in starts] == [1, 2, 3]
    reading = memory.equal_views(starts, PAGE, writable=False)
    assert [(view.readonly, len(view), view[0]) for view in reading] == [
        (True, PAGE, 1), (True, PAGE, 2), (True, PAGE, 3),
    ]  # fmt: skip
    for refused in ([], [*starts, 6 * PAGE], [0, 5 * PAGE + 1]):
        assert memory.equal_views(refused, PAGE) == []
    memory.permit(False)
    assert memory.equal_views(starts, PAGE) == []
    del view, views, reading
    memory.permit(True)
    memory.clear()


def test_equal_views_of_what_is_not_granted(memory):
    """Read-only, without a file, or in two mappings: the caller looks at each range."""
    memory.view(0, 1)
    assert memory.equal_views([0, PAGE], PAGE) == []
    assert memory.equal_views([2 * PAGE] * 4, PAGE, writable=False) == []
    assert memory.equal_views([4 * PAGE], PAGE) == []


def test_segments_of_read_only_memory(memory):
    views = memory.segments(PAGE, 2 * PAGE, writable=False)
    assert [len(view) for view in views] == [PAGE, PAGE]
    assert all(view.readonly for view in views)


def test_a_view_is_in_one_mapping(memory):
    for data in (b"view", b"once", b"more"):
        memory.view(PAGE - 4, 4)[:] = data
        assert memory.read(PAGE - 4, 4) == data
    assert not memory.view(0, 4).readonly
    assert memory.view(0, 4, writable=False).readonly
    with pytest.raises(DmaError, match="two mappings"):
        memory.view(PAGE - 4, 5)


@pytest.mark.parametrize(
    ("iova", "length", "why"),
    [
        (2 * PAGE - 2, 4, "read-only"),
        (3 * PAGE, 1, "not mapped"),
        (3 * PAGE - 1, 2, "read-only"),
        (4 * PAGE, 1, "without a file descriptor"),
        (0, 1 << 63, "read-only"),
        ((1 << 64) - 1, 1, "not mapped"),
        (1 << 64, 1, "not mapped"),
        (-1, 1, "not mapped"),
    ],
)
def test_a_refused_write_changes_nothing(memory, ram, iova, length, why):
    before = ram.bytes[:]
    for access in (memory.segments, memory.view):
        with pytest.raises(DmaError, match=why) as error:
            access(iova, length)
        assert (error.value.iova, error.value.length) == (iova, length)
    if length < 10:
        with pytest.raises(DmaError, match=why):
            memory.write(iova, b"x" * length)
    assert ram.bytes[:] == before


def test_no_bytes_are_always_granted(memory):
    assert memory.read(3 * PAGE, 0) == b""
    assert memory.segments(3 * PAGE, 0) == []
    assert len(memory.view(3 * PAGE, 0)) == 0
    memory.write(3 * PAGE, b"")


@pytest.fixture
def forgotten(memory):
    """The number of calls to forget views, in a list."""
    calls = [0]

    def forget():
        calls[0] += 1

    memory.forget_views = forget
    return calls


def test_views_are_forgotten_at_each_change(memory, ram, forgotten):
    memory.map(8 * PAGE, PAGE, 0, READ, ram.fd)
    assert forgotten == [1]
    memory.unmap(8 * PAGE, PAGE)
    assert forgotten == [2]
    memory.clear()
    assert forgotten == [3]


def test_nothing_is_granted_while_the_function_may_not_master_the_bus(memory, ram, forgotten):
    """Not even what was just accessed; afterwards all is as it was, whatever changed meanwhile."""
    memory.write(0, b"seen")
    before = ram.bytes[:]
    memory.permit(False)
    assert forgotten == [1]
    for access in (memory.read, memory.view, memory.segments):
        with pytest.raises(DmaError, match="bus mastering is off"):
            access(0, 4)
    with pytest.raises(DmaError, match="bus mastering is off"):
        memory.write(0, b"lost")
    assert memory.read(0, 0) == b""
    memory.unmap(PAGE, PAGE)
    assert ram.bytes[:] == before
    memory.permit(True)
    assert memory.read(0, 4) == b"seen"
    with pytest.raises(DmaError, match="not mapped"):
        memory.read(PAGE, 1)


def test_whoever_watches_is_asked_each_time(memory, ram, forgotten):
    """Also about what was just accessed, and after the function may master the bus again."""
    asked = []
    memory.write(0, b"before")
    memory.watch(lambda *access: asked.append(access))
    assert forgotten == [1]
    for _ in range(2):
        assert memory.read(0, 6) == b"before"
        memory.write(PAGE - 1, b"over")
    memory.permit(False)
    memory.permit(True)
    memory.view(0, 4)
    memory.segments(2 * PAGE, 8, writable=False)
    twice = [(0, 6, False), (PAGE - 1, 4, True)] * 2
    assert asked == [*twice, (0, 4, True), (2 * PAGE, 8, False)]
    memory.watch(None)
    memory.read(0, 6)
    assert len(asked) == 6


def test_whoever_watches_can_refuse(memory, ram):
    def refuse(iova, length, is_write):
        if is_write:
            raise DmaError(iova, length, "not now")

    before = ram.bytes[:]
    memory.watch(refuse)
    with pytest.raises(DmaError, match="not now"):
        memory.write(0, b"lost")
    for access in (memory.view, memory.segments):
        with pytest.raises(DmaError, match="not now"):
            access(0, 4)
    assert memory.read(0, 4) == ram.bytes[PAGE : PAGE + 4]
    assert ram.bytes[:] == before


@given(
    st.lists(st.integers(0, 15), unique=True),
    st.integers(0, 17 * PAGE),
    st.integers(0, 4 * PAGE),
)
def test_bytes_are_granted_exactly_where_pages_are(pages, iova, length):
    """A model: a byte is readable if and only if its page was granted."""
    ram = GuestRam(16 * PAGE)
    memory = DmaMap()
    try:
        for slot, page in enumerate(pages):
            memory.map(page * PAGE, PAGE, slot * PAGE, READ | WRITE, ram.fd)
            ram.bytes[slot * PAGE : (slot + 1) * PAGE] = bytes([page + 1]) * PAGE
        wanted = bytes((at // PAGE) + 1 for at in range(iova, iova + length))
        if all(at // PAGE in pages for at in range(iova, iova + length)):
            assert memory.read(iova, length) == wanted
            assert b"".join(memory.segments(iova, length)) == wanted
        else:
            with pytest.raises(DmaError):
                memory.read(iova, length)
    finally:
        memory.clear()
        ram.close()
