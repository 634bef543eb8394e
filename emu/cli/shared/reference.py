"""Replaces the guide's ``<!-- autoclass NAME MEMBER... -->`` by the docstrings that they stand for.

The site's Sphinx fills in the same comments (``share/site/conf.py``).
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

_COMMENT = re.compile(r"<!-- auto(?:class|module) ([\w.]+)((?: \w+)*) -->")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_CODE_BLOCK = re.compile(r"^::\n\n|:(?=:$)", re.M)
_EMPTY = inspect.Parameter.empty


def with_reference(text: str) -> str:
    """Return a page's Markdown in which docstrings replace the comments.

    A class gets a list of its members, each with its signature and the first paragraph of its
    docstring; without MEMBER, of all public ones. Raises ImportError or AttributeError for a name
    that does not exist.
    """
    return _COMMENT.sub(lambda found: _described(found[1], found[2].split()), text)


def _described(name: str, members: list[str]) -> str:
    """Return the docstring of a module or class, and the list of a class's members."""
    thing = _imported(name)
    text = _markdown(inspect.getdoc(thing) or "")
    if not inspect.isclass(thing):
        return text
    chosen = members or [*_public(thing)]
    path, _, title = name.rpartition(".")
    head = f"`from {path} import {title}`; `{title}{_signature(thing)}`"
    lines = [_member(one, inspect.getattr_static(thing, one)) for one in chosen]
    return "\n\n".join([head, text, "\n".join(lines)])


def _imported(name: str) -> Any:
    """Return a module, or a name of a module, by its dotted name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        path, _, last = name.rpartition(".")
        return getattr(importlib.import_module(path), last)


def _public(owner: type) -> Iterator[str]:
    """Yield the public functions and properties of a class, without inherited ones."""
    for name, member in vars(owner).items():
        if not name.startswith("_") and (inspect.isfunction(member) or _is_property(member)):
            yield name


def _is_property(member: object) -> bool:
    return isinstance(member, property)


def _member(name: str, member: object) -> str:
    """Return a list item: the signature and the docstring's first paragraph in one line."""
    about = _markdown(inspect.getdoc(member) or "").partition("\n\n")[0]
    return f"- `{name}{_signature(member)}`: {' '.join(about.split())}"


def _signature(thing: Any) -> str:
    """Return the parameters in parentheses, without types and ``self``; "" if none are known."""
    if not callable(thing):
        return ""
    found = inspect.signature(thing)
    plain = [
        parameter.replace(annotation=_EMPTY)
        for name, parameter in found.parameters.items()
        if name != "self"
    ]
    return str(found.replace(parameters=plain, return_annotation=_EMPTY))


def _markdown(docstring: str) -> str:
    """Return a docstring of reStructuredText as Markdown; indented code is the same in both."""
    return _ROLE.sub(r"`\1`", _CODE_BLOCK.sub("", docstring)).replace("``", "`")
