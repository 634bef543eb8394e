"""Messages that name a value hold the value: no braces in a string without ``f``."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("emu", "firmware_cmds", "layouts")
TOLD = {"debug", "info", "warning", "error", "exception", "echo", "fail"}
"""Methods and functions whose arguments are messages."""
FILLED = {"format", "replace", "PydanticCustomError"}
"""Calls that fill the braces of a template."""
REPLACED = re.compile(r"\{([^{}]+)\}")


def forgotten(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of messages that name a value of the source in braces, without ``f``."""
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _name(node) in TOLD):
            for text in _plain(node):
                if any(_names(words) & names for words in REPLACED.findall(text.value)):
                    yield text.lineno, text.value


def _name(call: ast.Call) -> str:
    named = call.func
    return named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")


def _plain(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings in a node that are no part of an f-string and are not filled by a call."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child
        elif not isinstance(child, ast.JoinedStr) and not (
            isinstance(child, ast.Call) and _name(child) in FILLED
        ):
            yield from _plain(child)


def _names(words: str) -> set[str]:
    try:
        tree = ast.parse(words.partition(":")[0].partition("!")[0].strip(), mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_message_lacks_its_f(package):
    assert {
        f"{path.relative_to(ROOT)}:{line}": text
        for path in (ROOT / package).rglob("*.py")
        for line, text in forgotten(path.read_text())
    } == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('raise E("more than {_MAX >> 20} MiB", _MAX)', 1),
        ('log.warning("no {name!r}" " here", name)', 1),
        ('raise E(f"more than {_MAX}", _MAX)', 0),
        ('raise E("a set {1, 2}, or {unknown}")', 0),
        ('raise E("no {name}".format(name=name))', 0),
    ],
)
def test_a_forgotten_f_is_found(source, count):
    assert len(list(forgotten(source))) == count
