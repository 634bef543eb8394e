"""The words of names and texts: CONTRIBUTING's glossary, held by checks.

ruff's D rules hold the form of docstrings (D401: a verb first). These tests hold what no linter
knows: sentences name their subject, private words stay out of names, limits are MAX_ and MIN_.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("emu", "layouts", "firmware_cmds")
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(
            page
            for name in (*PACKAGES, "examples", "scripts", "share")
            for page in (ROOT / name).rglob("*.md")
        ),
    }
    - {ROOT / "CHANGELOG.md"}
)
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
OPENING = re.compile(
    r"(It|What|Who|There|As|So|Those|That|These|This|Such|Nothing|Whoever|Whatever|Which|Nobody"
    r"|Somebody|They)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_LOGS = {"debug", "info", "warning", "error", "exception", "log"}
UNUSED = frozenset(
    {
        "storey",
        "looks",
        "remains",
        "recall",
        "lend",
        "lent",
        "fate",
        "dice",
        "parcel",
        "stranger",
        "keeper",
        "inhabitant",
        "door",
        "told",
        "passage",
        "passing",
        "onward",
        "vocabulary",
        "misplaced",
        "unfinished",
        "partner",
    }
)
"""Words that names of this project do not use; CONTRIBUTING says which word is used instead."""
FIELDS_WORDS = frozenset({"link_partner", "LinkPartner"})
"""Names in which such a word is the field's: IEEE 802.3 calls the other end a link partner."""


def sentences(text):
    """Yield each sentence of a docstring or comment, without its line breaks."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        yield from _SENTENCE.split(" ".join(paragraph.split()))


def texts(source):
    """Yield line and text of each docstring, block of comments, log call and raised error."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield node.lineno, text
            case ast.Call(ast.Attribute(attr=name), [ast.Constant(str(text)), *_]) if name in _LOGS:
                yield node.lineno, text
            case ast.Raise(ast.Call(args=args)):
                for one in args:
                    if isinstance(one, ast.Constant) and isinstance(one.value, str):
                        yield node.lineno, one.value
    block, first = [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            first = first or token.start[0]
            block.append(token.string.lstrip("#: "))
        elif block and token.type not in (tokenize.NL, tokenize.NEWLINE):
            yield first, "\n".join(block)
            block, first = [], 0


def paragraphs(page):
    """Yield the paragraphs and list items of a page, without headings, tables and code."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\d+\. )", text):
        if not paragraph.lstrip().startswith(("|", "#")):
            yield re.sub(r"^\s*(- |\d+\. )", "", paragraph)


def openings(source):
    return [
        (line, sentence)
        for line, text in texts(source)
        for sentence in sentences(text)
        if OPENING.match(sentence)
    ]


def names(path):
    """Yield the names that a module gives: its own, classes, functions, parameters, attributes."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.Name(id=name, ctx=ast.Store()):
                yield name


def words(name):
    return set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_name_their_subject(path):
    assert not openings(path.read_text())


def page_openings(page):
    return [
        sentence
        for paragraph in paragraphs(page)
        for sentence in sentences(paragraph)
        if OPENING.match(sentence)
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_of_pages_name_their_subject(path):
    assert not page_openings(path.read_text())


def test_an_opening_pronoun_of_a_page_is_found():
    page = "# It\n\nGood. It is not.\n- There\n  it is\n\n```\nIt is code.\n```\n\n| So |\n|---|\n"
    assert page_openings(page) == ["It is not.", "There it is"]


def test_an_opening_pronoun_is_found():
    source = (
        '"""Good.\n\nIt is not."""\nlog.info("What waits")\nraise E("There is")\n# So it is\nx\n'
    )
    assert sorted(line for line, _ in openings(source)) == [1, 4, 5, 6]


def test_limits_are_max_and_min():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in set(names(path))
        if re.match(r"_?(MOST|LEAST)_", name)
    ]
    assert not found


def test_names_have_none_of_the_unused_words():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in set(names(path)) - FIELDS_WORDS
        if words(name) & UNUSED
    }
    assert not sorted(found)


def test_no_two_classes_have_one_name():
    """A reader who searches for a class finds one."""
    found = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: where for name, where in found.items() if len(where) > 1}
