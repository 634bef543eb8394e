"""Fields of views as a type checker sees them; at run time each is a property (codec.py).

Only stubs use these: there is no such module at run time. A number is declared as ``int``.
"""

from collections.abc import Collection, Mapping
from typing import Any, Generic, SupportsBytes, TypeVar

from typing_extensions import Buffer

from layouts.codec import ArrayView, View

ViewT = TypeVar("ViewT", bound=View)
ItemT = TypeVar("ItemT")

class Nested(Generic[ViewT]):
    """A structure inside a structure: read as a view, set from bytes or from fields by name."""

    def __get__(self, view: View, owner: type[View]) -> ViewT: ...
    def __set__(self, view: View, value: SupportsBytes | Buffer | Mapping[str, Any]) -> None: ...

class Octets:
    """Bytes taken as they are."""

    def __get__(self, view: View, owner: type[View]) -> bytes: ...
    def __set__(self, view: View, value: SupportsBytes | Buffer) -> None: ...

class Items(Generic[ItemT]):
    """Items of equal width, set all at once by a sequence of the same length."""

    def __get__(self, view: View, owner: type[View]) -> ArrayView[ItemT]: ...
    def __set__(self, view: View, value: Collection[Any] | ArrayView[Any]) -> None: ...
