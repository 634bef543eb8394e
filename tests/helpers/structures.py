"""Structures that a test declares field by field, where a class body would not do."""

from layouts.fields import FieldKind, nested
from layouts.prm import Prm, PrmType


def structure(name, *fields, c_name=None):
    """Declare a structure from pairs of name and kind (or structure), and reserved kinds."""
    body = PrmType.__prepare__(name, (Prm,))
    for field in fields:
        key, kind = ("_", field) if isinstance(field, FieldKind) else field
        body[key] = nested(kind) if isinstance(kind, PrmType) else kind
    return PrmType(name, (Prm,), body, c_name=c_name)
