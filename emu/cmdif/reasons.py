"""The reasons in our own sources that a syndrome can stand for, to map a syndrome back to text.

Every refusal is a call ``CmdError(Status.X, reason, detail)`` whose reason is fixed text, so the
calls in the sources are the complete list. A reason is a string, a constant of its module, or an
f-string over ``self.kind``, which stands for every kind of object that the device has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from emu import objects
from emu.errors import CmdError, syndrome_of
from emu.objects.table import Object

_KIND = "self.kind"
_BUSY = "item.BUSY"
"""The status of a reason that is about a kind may be the kind's own."""


class ReasonError(Exception):
    """A reason is not fixed text, so its syndrome could not be explained."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A refusal in the sources."""

    text: str
    status: str
    """The status name, as in the source."""
    module: str
    line: int
    function: str
    """The function that refuses, with the enclosing one (``create_eq``, ``Table.need``)."""

    @property
    def syndrome(self) -> int:
        """The syndrome, as the driver prints it."""
        return syndrome_of(self.text)


def kinds() -> tuple[str, ...]:
    """The device's names for its kinds of objects."""
    return tuple(kind.kind for kind in _classes())


def _classes() -> list[type[Object]]:
    return [
        kind
        for kind in vars(objects).values()
        if isinstance(kind, type) and issubclass(kind, Object) and kind is not Object
    ]


@cache
def collect(*packages: ModuleType) -> Sequence[Reason]:
    """Every reason in the packages' sources, module by module.

    Raises :class:`ReasonError` for one that is no fixed text.
    """
    found: list[Reason] = []
    for package in packages:
        for directory in package.__path__:
            for path in sorted(Path(directory).rglob("*.py")):
                inner = path.relative_to(directory).with_suffix("").parts
                name = ".".join((package.__name__, *inner)).removesuffix(".__init__")
                found += reasons_in(path.read_text(encoding="utf-8"), name)
    return found


def reasons_in(source: str, module: str) -> Iterator[Reason]:
    """The reasons in one module. Raises :class:`ReasonError` for one that is no fixed text."""
    if f"{CmdError.__name__}(" not in source:
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
        if len(call.args) < 2:
            raise ReasonError(f"{where}: status and reason are to be given by position")
        status, reason = call.args[:2]
        name = ast.unparse(status).removeprefix("Status.")
        for text, kind in _texts(reason, constants, where):
            of_kind = kind.BUSY.name if kind is not None and name == _BUSY else name
            yield Reason(text, of_kind, module, call.lineno, function)


def _refusals(node: ast.AST, around: tuple[str, ...]) -> Iterator[tuple[ast.Call, str]]:
    """Each call of CmdError below a node, with the name of the function that contains it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield from _refusals(child, (*around, child.name))
            continue
        if isinstance(child, ast.Call) and _called(child) == CmdError.__name__:
            yield child, ".".join(around)
        yield from _refusals(child, around)


def _called(call: ast.Call) -> str:
    """The called name, without the module in front of it."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _texts(
    reason: ast.expr, constants: Mapping[str, str], where: str
) -> list[tuple[str, type[Object] | None]]:
    """What the reason can say, each time with the kind of object that it is about."""
    if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
        return [(reason.value, None)]
    if isinstance(reason, ast.Name) and reason.id in constants:
        return [(constants[reason.id], None)]
    if isinstance(reason, ast.JoinedStr):
        return [(_filled(reason, kind.kind, where), kind) for kind in _classes()]
    raise ReasonError(f"{where}: the reason is no fixed text: {ast.unparse(reason)}")


def _filled(reason: ast.JoinedStr, kind: str, where: str) -> str:
    parts = []
    for part in reason.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
        elif isinstance(part, ast.FormattedValue) and ast.unparse(part.value) == _KIND:
            parts.append(kind)
        else:
            raise ReasonError(f"{where}: only {{{_KIND}}} has known values: {ast.unparse(reason)}")
    return "".join(parts)
