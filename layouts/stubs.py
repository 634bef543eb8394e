"""Stubs of the structure modules for type checkers, derived from the declarations.

A view's fields are made when the module is imported, so mypy and editors do not see them. The stub
beside the module (``objects/cq.pyi``) lists them: for ``create_cq_in`` it has a class
``CreateCqIn``, and ``create_cq_in`` is a ``Prm[CreateCqIn]``. The classes exist in annotations
only. ``scripts/gen-view-types`` writes all stubs; a test fails when one is stale.

A module of structures may also have numbers, strings, enumerations and ``struct.Struct``. Functions
and other classes need a module of their own: mypy reads a stub in place of its module and would not
check them.
"""

from __future__ import annotations

import ast
import inspect
import keyword
import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import ModuleType

import construct as c

from layouts.prm import Field, Prm

HEAD = "# Written by scripts/gen-view-types from {}.py; a test fails when it is stale.\n"

_CONSTANTS = (bool, int, str, bytes)

_Homes = Mapping[int, tuple[str, str]]
"""Module and name of each structure that has a name of its own, by ``id``."""


def stubs(modules: Iterable[ModuleType]) -> dict[str, str]:
    """Return the texts of the stubs by module name; no file is written.

    A module without structures has none. Raises TypeError for a module with an object that a stub
    would hide from mypy, and for two structures with one class name.
    """
    declared = {module: tuple(_declared(module)) for module in modules}
    homes = {
        id(value): (module.__name__, name)
        for module, names in declared.items()
        for name in names
        if isinstance(value := vars(module)[name], Prm)
    }
    homely = {module for module, _ in homes.values()}
    return {
        module.__name__: _Stub(module, names, homes).text()
        for module, names in declared.items()
        if module.__name__ in homely
    }


def class_name(name: str) -> str:
    """Return the class name of a structure: ``CreateCqIn`` for ``create_cq_in``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


class _Stub:
    """Stub of one module, built from its blocks."""

    def __init__(self, module: ModuleType, names: Iterable[str], homes: _Homes) -> None:
        self._module = module.__name__
        self._homes = homes
        self._imports: dict[str, set[str]] = {}
        self._constants: list[str] = []
        self._blocks: list[str] = []
        self._classes: set[str] = set()
        for name in names:
            self._add(name, vars(module)[name])

    def text(self) -> str:
        """Return the whole text of the stub: head, imports, constants and classes."""
        imports = [
            f"from {module} import {', '.join(sorted(names))}\n"
            for module, names in sorted(self._imports.items())
        ]
        ours = [line for line in imports if line.startswith("from layouts")]
        theirs = [line for line in imports if line not in ours]
        parts = ["".join(lines) for lines in (theirs, ours, self._constants)]
        head = HEAD.format(self._module.rpartition(".")[2])
        return "\n".join([head, *filter(None, parts), *self._blocks])

    def _add(self, name: str, value: object) -> None:
        """Add a name's declaration. Raises TypeError for an object that a stub would hide."""
        if isinstance(value, Prm):
            self._structure(class_name(name), value)
            self._blocks.append(f"{name}: {self._from('layouts.prm', 'Prm')}[{class_name(name)}]\n")
        elif isinstance(value, type) and issubclass(value, Enum):
            self._from("enum", value.__bases__[0].__name__)
            self._blocks.append(inspect.getsource(value))
        elif isinstance(value, struct.Struct):
            self._constants.append(f"{name}: {self._from('struct', 'Struct')}\n")
        elif isinstance(value, tuple):
            self._constants.append(f"{name}: tuple[{self._from('typing', 'Any')}, ...]\n")
        elif type(value) in _CONSTANTS:
            self._constants.append(f"{name}: {self._from('typing', 'Final')} = {value!r}\n")
        else:
            raise TypeError(f"{self._module}.{name} would be hidden by the stub: move it elsewhere")

    def _structure(self, name: str, prm: Prm) -> None:
        """Add the class of a structure's views, behind those of the structures declared inside it.

        Raises TypeError if the module already has a class of this name. Fields named like a Python
        keyword are left out.
        """
        if name in self._classes:
            raise TypeError(f"{self._module}: two structures would be {name}")
        self._classes.add(name)
        fields = [
            f"    {field.name}: {self._field(name, field)}\n"
            for field in prm.fields
            if not keyword.iskeyword(field.name)  # needs getattr, as cmd_layout's "in"
        ]
        view = self._from("layouts.codec", "View")
        body = f"\n{''.join(fields)}" if fields else " ...\n"
        self._blocks.append(f"class {name}({view}):{body}")

    def _field(self, owner: str, field: Field) -> str:
        """Return the declared type of a field.

        A structure that is declared only in this field is named after it.
        """
        inside = owner + class_name(field.name)
        if isinstance(field.kind, c.Array | c.GreedyRange):
            items = self._from("layouts.fields", "Items")
            return f"{items}[{self._kind(field.kind.subcon, inside)}]"
        kind = self._kind(field.kind, inside)
        if isinstance(field.kind, Prm):
            return f"{self._from('layouts.fields', 'Nested')}[{kind}]"
        return self._from("layouts.fields", "Octets") if kind == "bytes" else kind

    def _kind(self, kind: object, inside: str) -> str:
        """Return the type of one value, and import or add its class if it is a structure."""
        if not isinstance(kind, Prm):
            return "int" if isinstance(kind, c.BitsInteger) else "bytes"
        if id(kind) not in self._homes:
            self._structure(inside, kind)
            return inside
        module, name = self._homes[id(kind)]
        return class_name(name) if module == self._module else self._from(module, class_name(name))

    def _from(self, module: str, name: str) -> str:
        self._imports.setdefault(module, set()).add(name)
        return name


def _declared(module: ModuleType) -> Iterator[str]:
    """Yield the public names that the module's source itself declares, in its order.

    Imported names and names with an underscore are left out.
    """
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.Assign(targets=targets):
                within = [part for target in targets for part in ast.walk(target)]
                names = [part.id for part in within if isinstance(part, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))
