"""Tables on terminals of some widths, and in a pipe, where nothing is folded or cut."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from emu.cli.shared.control import UNLIMITED
from emu.cli.shared.tables import INDENT, Hanging, Rows, fitted


def printed(what, width):
    out = io.StringIO()
    console = Console(width=width, file=out, markup=False, emoji=False, highlight=False)
    console.print(what)
    return out.getvalue().splitlines()


def guests():
    table = Rows("name", "state", "minutes", "functions", numbers=("minutes",), title="guests:")
    table.add("dev", "up", "3", "connectx6")
    table.add("lab", "booting", "12", " ".join(["connectx6dx"] * 6))
    return table


def test_a_wide_terminal_has_a_line_for_each_row():
    assert printed(guests(), UNLIMITED) == [
        "guests:",
        "name  state    minutes  functions",
        "dev   up             3  connectx6",
        "lab   booting       12  " + " ".join(["connectx6dx"] * 6),
    ]


def test_the_widest_column_is_folded_where_there_is_room_for_it():
    assert printed(guests(), 64) == [
        "guests:",
        "name  state    minutes  functions",
        "dev   up             3  connectx6",
        "lab   booting       12  connectx6dx connectx6dx connectx6dx",
        "                        connectx6dx connectx6dx connectx6dx",
    ]


def test_a_column_without_room_goes_below():
    assert printed(guests(), 40) == [
        "guests:",
        "name  state    minutes",
        "dev   up             3",
        "    functions: connectx6",
        "lab   booting       12",
        "    functions: connectx6dx connectx6dx",
        "    connectx6dx connectx6dx connectx6dx",
        "    connectx6dx",
    ]


def test_what_is_empty_has_no_line_below():
    table = Rows("queue", "requests", "errors")
    table.add("QP 0x41", "", Text("1 WR_FLUSH_ERR, and no other", "red"))
    table.add("QP 0x42", "", "")
    assert printed(table, 20) == [
        "queue    requests",
        "QP 0x41",
        "    errors: 1",
        "    WR_FLUSH_ERR,",
        "    and no other",
        "QP 0x42",
    ]


def test_further_lines_of_a_text_are_indented():
    assert printed(Hanging("three words more"), 14) == ["three", "    words more"]
    assert printed(Hanging("three words more"), 16) == ["three words more"]


@pytest.mark.parametrize(
    ("natural", "room", "widths"),
    [
        ([6, 6], 80, [6, 6]),
        ([6, 30, 32, 10], 80, [6, 30, 0, 10]),
        ([6, 200, 6], 80, [6, 64, 6]),
        ([6, 40, 30, 6], 50, [6, 0, 30, 6]),
        ([6, 0, 3], 80, [6, 0, 3]),
        ([90, 6], 20, [20, 0]),
    ],
)
def test_widths(natural, room, widths):
    assert fitted(natural, room) == widths


WORDS = st.text("abc 0x", max_size=60)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=4), st.integers(20, 90))
def test_no_line_is_wider_than_the_terminal_and_nothing_is_lost(rows, width):
    table = Rows("one", "two", "three", "four", numbers=("two",))
    for row in rows:
        table.add(*row)
    lines = printed(table, width)
    assert max(map(len, lines)) <= width
    letters = sum(len("".join(row).replace(" ", "")) for row in rows)
    assert sum(len(line.replace(" ", "")) for line in lines) >= letters
    assert len(printed(table, UNLIMITED)) == 1 + len(rows)


def test_the_indent_is_the_same_below_a_row_and_in_a_long_text():
    table = Rows("a", "b")
    table.add("x", "y " * 40)
    (below,) = {line[:INDENT] for line in printed(table, 20)[2:]}
    assert below == printed(Hanging("y " * 40), 20)[1][:INDENT] == " " * INDENT
