"""The pages that users read: their links lead somewhere, and the README is one that is read."""

import contextlib
import importlib.util
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli import manpage
from emu.cli.main import main
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


def shipped_paths():
    """The files that a wheel has in emu/data, by their paths in the checkout."""
    spec = importlib.util.spec_from_file_location("mlx5emu_setup", ROOT / "setup.py")
    setup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(setup)
    with contextlib.chdir(ROOT):
        return {str(path) for pattern in setup.SHIPPED for path in Path().glob(pattern)}


def test_files_that_the_guide_names_are_in_a_wheel_and_shown():
    ships, known = shipped_paths(), shipped.files()
    words = re.compile(r"\b(?:examples|emu|firmware_cmds)/[\w./-]*\w\.\w+")
    texts = {path.name: path.read_text() for path in shipped.pages().values()}
    texts["manual page"] = manpage.page()
    named = {found: where for where, text in texts.items() for found in words.findall(text)}
    assert "examples/sriov/namespaces.sh" in named
    assert {name: page for name, page in named.items() if name not in ships} == {}
    assert {name: page for name, page in named.items() if name not in known} == {}


@pytest.mark.parametrize(
    "word",
    ["examples/sriov/namespaces.sh", "@sriov/namespaces.sh", "../../emu/guests/options/README.md"],
)
def test_a_file_that_a_page_names_is_shown(word):
    result = CliRunner().invoke(main, ["guide", word])
    path = ROOT / word.replace("@", "examples/").removeprefix("../../")
    assert (result.exit_code, result.output) == (0, path.read_text())


def test_a_folder_that_a_page_names_has_its_page_or_its_files():
    shown = CliRunner().invoke(main, ["guide", "examples/driver-tests"]).output
    assert shown == (ROOT / "examples" / "driver-tests" / "README.md").read_text()
    output = CliRunner().invoke(main, ["guide", "examples/module"]).output
    assert "near it: " in output
    assert "examples/module/peek.c" in output


def test_an_unknown_example_has_the_list():
    output = CliRunner().invoke(main, ["guide", "@qqqq"]).output
    assert "no example @qqqq; examples are @" in output
    assert "@roce" in output
    assert "; near it: @" not in output


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
