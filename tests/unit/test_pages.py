"""The pages that users read: their links lead somewhere, and the README is one that is read."""

import re
from pathlib import Path

import pytest

from emu.host import shipped

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(page for room in ("share", "examples", "scripts", "emu", "layouts", "firmware_cmds")
      for page in ROOT.joinpath(room).rglob("*.md")),
]  # fmt: skip
MAX_LINES = 200
_LINK = re.compile(r"\]\(((?:https://)?[\w./#-]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors(text):
    """The anchors of a page's headings, as forges make them."""
    return {
        re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in _HEADING.findall(text)
    }


def dead_links(page):
    for link in _LINK.findall(page.read_text()):
        place, _, anchor = link.partition("#")
        target = page.parent / place if place else page
        if link.startswith("https://"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            yield link


def test_pages_say_how_many_fault_plans_there_are():
    number = len([*ROOT.glob("examples/faults/*.toml")])
    said = [
        (str(page.relative_to(ROOT)), int(found[1]))
        for page in (ROOT / "README.md", *ROOT.glob("share/guide/*.md"))
        for found in re.finditer(r"(\d+) (?:fault )?plans\b", page.read_text())
    ]
    assert len(said) > 1
    assert {count for _, count in said} == {number}, said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert not [*dead_links(page)]


def test_dead_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A head, or two\n[a](none.md) [b](#a-head-or-two) [c](#none) [d](page.md)\n")
    assert [*dead_links(page)] == ["none.md", "#none"]


def test_commands_of_the_guide_name_examples_as_a_wheel_has_them():
    """By @NAME: nobody with a wheel has the folder of examples beside them."""
    path = re.compile(r"(?:mlx5emu|--faults|--subnet) .*examples/[\w/-]+\.(?:toml|net)")
    pages = [*ROOT.glob("share/guide/*.md"), *ROOT.glob("examples/**/*.toml")]
    assert len(pages) > 100
    assert not [(str(page), found) for page in pages for found in path.findall(page.read_text())]


def test_commands_of_the_guide_fit_a_terminal():
    """``mlx5emu guide`` shows its pages in 80 columns."""
    lines = [line for path in shipped.pages().values() for line in path.read_text().splitlines()]
    typed = [line for line in lines if line.startswith("mlx5emu ")]
    assert len(typed) > 100
    assert [line for line in typed if len(line) > 80] == []


def test_the_readme_is_read():
    assert len(ROOT.joinpath("README.md").read_text().splitlines()) <= MAX_LINES


def test_numbers_have_a_machine():
    """Numbers stand in a table with the machine in its head, not beside a word for its load."""
    excuse = re.compile(r"busy (?:machine|host)|\(load \d|at load \d")
    users = [
        page for page in PAGES if page.name != "CHANGELOG.md" and page != ROOT / "CONTRIBUTING.md"
    ]
    assert not [str(page) for page in users if excuse.search(page.read_text())]
