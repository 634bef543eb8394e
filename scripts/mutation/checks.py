"""Checks of a module, and the module without one of them.

A check is an ``if`` with a branch that refuses: it raises; returns nothing, None or False; returns
a step's outcome (``emu.device.objects.queues.outcome``), a bad status or the reason; or calls or
counts something with a refusing name. A check is removed as a whole, and then each term of its
``and`` and ``or`` separately. No other code of the module changes, lines and names included, so
that the code of one function can replace the other's.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

_WORDS = re.compile(
    r"fail|drop|refus|nak|error|discard|abort|reject|lost|lose|flush|damaged"
    r"|invalid_request|violation|give_up"
)
_OUTCOMES = re.compile(r"\b(Outcome|Failure|PageFault)\b")
"""Annotations of a function that may return a step's outcome."""
_GOOD = ("OK", "SUCCESS")
"""Members of an enumeration of statuses that refuse nothing."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Mutant:
    """Removal of one term or of a whole check."""

    file: str
    line: int
    function: str
    check: str
    """Whole condition, in the form of ``ast.unparse``."""
    term: str
    """Removed term of it; empty for the whole condition."""
    fires: int
    """Line that a test must run to detect the difference."""
    key: str
    """Key that depends only on the function's code, not on its position."""
    number: int
    """Number of the mutant in its file."""

    def __str__(self) -> str:
        without = f", without: {self.term}" if self.term else ""
        return f"{self.file}:{self.line}: {self.function}: if {self.check}{without}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Position of an expression that a constant replaces."""

    node: ast.AST
    field: str
    index: int | None
    value: bool
    toward: bool
    """Value that the replacement makes more frequent for the whole condition."""

    @property
    def expression(self) -> ast.expr:
        at = getattr(self.node, self.field)
        found: ast.expr = at if self.index is None else at[self.index]
        return found

    def take_away(self) -> None:
        """Replace the expression.

        Its names are still named, so a function's cells stay the same.
        """
        old = self.expression
        constant = ast.copy_location(ast.Constant(self.value), old)
        operator = ast.Or() if self.value else ast.And()
        is_first = not any(isinstance(part, ast.NamedExpr) for part in ast.walk(old))
        new = ast.BoolOp(operator, [constant, old] if is_first else [old, constant])
        ast.copy_location(new, old)
        if self.index is None:
            setattr(self.node, self.field, new)
        else:
            getattr(self.node, self.field)[self.index] = new


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield all mutants of the checks of a module."""
    count: dict[str, int] = {}
    for number, (name, function, check, place) in enumerate(_places(ast.parse(source))):
        digest = hashlib.sha256(ast.unparse(function).encode()).hexdigest()[:12]
        own = f"{file}:{name}:{digest}"
        count[own] = count.get(own, -1) + 1
        is_whole = place.node is check
        passes = _refuses(check.orelse, function)
        refusal = check.orelse[0] if passes else check.body[0]
        yield Mutant(
            file,
            place.expression.lineno,
            name,
            ast.unparse(check.test),
            "" if is_whole else ast.unparse(place.expression),
            _first_line(refusal if place.toward == passes else check),
            f"{own}:{count[own]}",
            number,
        )


def without(source: str, mutant: Mutant) -> ast.Module:
    """Return the module without the mutant's expression."""
    tree = ast.parse(source)
    *_, place = [*_places(tree)][mutant.number]
    place.take_away()
    return ast.fix_missing_locations(tree)


def _places(tree: ast.AST) -> Iterator[tuple[str, Function, ast.If, _Place]]:
    for name, function in _functions(tree, ""):
        for check in _ifs(function.body):
            refuses, passes = _refuses(check.body, function), _refuses(check.orelse, function)
            if refuses == passes:
                continue
            whole = _Place(check, "test", None, passes, passes)
            for place in (whole, *_terms(whole, negated=False)):
                yield name, function, check, place


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def _ifs(body: list[ast.stmt]) -> Iterator[ast.If]:
    """Yield the ``if`` statements of a function, without those of nested functions."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield statement
        if not isinstance(statement, Function | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _ifs(getattr(statement, field, []))
            for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                yield from _ifs(handler.body)


def _terms(place: _Place, *, negated: bool) -> Iterator[_Place]:
    """Yield each operand of ``and`` and ``or``, at any depth, with its neutral constant."""
    node = place.expression
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, negated = node.operand, not negated
    if isinstance(node, ast.BoolOp):
        value = isinstance(node.op, ast.And)
        for index in range(len(node.values)):
            term = _Place(node, "values", index, value, value != negated)
            yield term
            yield from _terms(term, negated=negated)


def _first_line(statement: ast.stmt) -> int:
    """Return the first line that the interpreter sees: ``if (`` has no code of its own."""
    return statement.test.lineno if isinstance(statement, ast.If) else statement.lineno


def _refuses(body: list[ast.stmt], function: Function) -> bool:
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Return) and _is_refusal(last.value, function):
        return True
    return isinstance(last, ast.Raise) or any(_says_so(statement) for statement in body)


def _is_refusal(value: ast.expr | None, function: Function) -> bool:
    """Return whether this value, returned from a branch, is a refusal."""
    if value is None or (isinstance(value, ast.Constant) and value.value in (None, False)):
        return True
    if isinstance(value, ast.IfExp):
        return _is_refusal(value.body, function) and _is_refusal(value.orelse, function)
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        return value.value.id.endswith("Status") and value.attr not in _GOOD
    returns = ast.unparse(function.returns) if function.returns else ""
    if _OUTCOMES.search(returns):
        return isinstance(value, ast.Name) or _is_made(value)
    return returns == "str" and _gives_reasons(function) and _is_text(value)


def _is_made(value: ast.expr) -> bool:
    """Return whether the value is a call that names a class: ``Nak(...)``,
    ``Failure.of_access(...)``.
    """
    return isinstance(value, ast.Call) and ast.unparse(value.func)[0].isupper()


def _gives_reasons(function: Function) -> bool:
    """Return whether the function returns a reason as text, empty or None for success."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    parts = [part for value in values if value for part in (value, *ast.iter_child_nodes(value))]
    return any(isinstance(part, ast.Constant) and part.value == "" for part in parts)


def _is_text(value: ast.expr) -> bool:
    text = isinstance(value, ast.Constant) and value.value != ""
    return text or isinstance(value, ast.Name | ast.JoinedStr)


def _says_so(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.AugAssign):
        return bool(_WORDS.search(ast.unparse(statement.target)))
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Expr | ast.Return) or not isinstance(value, ast.Call):
        return False
    return bool(_WORDS.search(ast.unparse(value.func)))
