"""Collection of all refusal reasons in the sources, to map a syndrome back to its text.

Every refusal is a call ``CmdError(Status.X, reason, detail)`` or ``BadParamError(reason, detail)``,
or the ``super().__init__`` call of a class derived from CmdError. The reason is fixed text, so
these calls are the complete list. A reason is a string, a constant of its module, or an f-string
over ``self.kind``, which stands for every kind of object: a table takes its kind from the class of
its objects.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from emu.device.errors import BadParamError, CmdError, syndrome_of
from emu.device.state import tables
from layouts.enums.cmd import Status

_KIND: Final = "self.kind"
_ERRORS: Final = (CmdError.__name__, BadParamError.__name__)


class ReasonError(Exception):
    """A reason that is not fixed text, so its syndrome cannot be explained."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A refusal in the sources."""

    text: str
    status: str
    """Name of the status; empty where a fault rule chooses it."""
    module: str
    line: int
    function: str
    """The refusing function with the enclosing class (``create_eq``, ``Table.need``)."""

    @property
    def syndrome(self) -> int:
        """The syndrome, as the driver prints it."""
        return syndrome_of(self.text)


def kinds() -> tuple[str, ...]:
    """Return the device's names for its kinds of objects."""
    return tuple(of.kind for of in tables.kinds())


@cache
def collect(*packages: ModuleType) -> Sequence[Reason]:
    """Return every reason in the packages' sources, module by module; the result is cached.

    Reads the source files, not the loaded modules. Raises :class:`ReasonError` for a reason that is
    not fixed text.
    """
    reasons: list[Reason] = []
    for package in packages:
        for directory in package.__path__:
            for path in sorted(Path(directory).rglob("*.py")):
                inner = path.relative_to(directory).with_suffix("").parts
                name = ".".join((package.__name__, *inner)).removesuffix(".__init__")
                reasons += reasons_in(path.read_text(encoding="utf-8"), name)
    return reasons


def reasons_in(source: str, module: str) -> Iterator[Reason]:
    """Yield the reasons in one module's source, one for each text that a reason can have.

    A string or a string constant of the module has one text. An f-string over ``self.kind`` has one
    for each kind of object. Raises :class:`ReasonError` for any other expression, and for a
    CmdError call without status and reason by position.
    """
    if not any(error in source for error in _ERRORS):
        return
    tree = ast.parse(source)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    for call, function in _refusals(tree, ()):
        where = f"{module}, line {call.lineno}"
        status, reason = _status_and_reason(call, where)
        for text in _texts(reason, constants, where):
            yield Reason(text, status, module, call.lineno, function)


def _status_and_reason(call: ast.Call, where: str) -> tuple[str, ast.expr]:
    """Return the name of a refusal's status and its reason; ReasonError if passed by keyword."""
    match call.args:
        case [reason, *_] if _name(call.func) == BadParamError.__name__:
            return Status.BAD_PARAM_ERR.name, reason
        case [status, reason, *_]:
            source = ast.unparse(status)
            name = source.removeprefix("Status.")
            return "" if name == source else name, reason
    raise ReasonError(f"{where}: pass status and reason by position")


def _refusals(node: ast.AST, around: tuple[str, ...]) -> Iterator[tuple[ast.Call, str]]:
    """Yield each call below a node that makes a refusal, with the enclosing function's name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            if isinstance(child, ast.ClassDef) and CmdError.__name__ in map(_name, child.bases):
                yield from _inherited(child, around)
            yield from _refusals(child, (*around, child.name))
            continue
        if isinstance(child, ast.Call) and _name(child.func) in _ERRORS:
            yield child, ".".join(around)
        yield from _refusals(child, around)


def _inherited(derived: ast.ClassDef, around: tuple[str, ...]) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls of CmdError's ``__init__`` in a class derived from it."""
    for node in ast.walk(derived):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__":
            yield node, ".".join((*around, derived.name))


def _name(called: ast.expr) -> str:
    """Return the name of a called function or base class, without its module; "" for others."""
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def _texts(reason: ast.expr, constants: Mapping[str, str], where: str) -> list[str]:
    """Return the texts that the reason can have: one, or one for each kind of object.

    Raises ReasonError for an expression other than a string, a string constant of the module, or an
    f-string over ``self.kind``.
    """
    if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
        return [reason.value]
    if isinstance(reason, ast.Name) and reason.id in constants:
        return [constants[reason.id]]
    if isinstance(reason, ast.JoinedStr):
        return [_filled(reason, kind, where) for kind in kinds()]
    raise ReasonError(f"{where}: the reason is not fixed text: {ast.unparse(reason)}")


def _filled(reason: ast.JoinedStr, kind: str, where: str) -> str:
    """Return an f-string's text for one kind of object. Raises ReasonError for other variables."""
    parts = []
    for part in reason.values:
        match part:
            case ast.Constant(value=text):
                parts.append(str(text))
            case ast.FormattedValue(value=value) if ast.unparse(value) == _KIND:
                parts.append(kind)
            case _:
                raise ReasonError(
                    f"{where}: an f-string may only contain {{{_KIND}}}: {ast.unparse(reason)}"
                )
    return "".join(parts)
