"""Files of a command: examples by their names, and files to write, checked before the work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from emu.host import shipped
from emu.host.user_error import UserError


class NewFile(click.Path):
    """A file to write; the directories above it are made when they are not there."""

    def __init__(self, resolve_path: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path, resolve_path=resolve_path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a mistake of the user's if no file can be there."""
        path = super().convert(value, param, ctx)
        assert isinstance(path, Path)
        if not path.exists():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                self.fail(f"no directory {path.parent} can be made: {error.strerror}", param, ctx)
            if not os.access(path.parent, os.W_OK | os.X_OK):
                self.fail(f"no file can be made in {path.parent}", param, ctx)
        return path


class ExampleFile(click.Path):
    """A file that is there, or ``@NAME``: an example that comes with the package."""

    def __init__(self, kind: str, resolve_path: bool = False) -> None:
        """``kind`` is one of :data:`emu.host.shipped.FOLDERS`."""
        super().__init__(exists=True, dir_okay=False, path_type=Path, resolve_path=resolve_path)
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails for a name that no example has."""
        if isinstance(value, str) and value.startswith("@") and not Path(value).exists():
            try:
                return shipped.example(self._kind, value[1:])
            except UserError as error:
                self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the examples for a word that begins with ``@``, else files."""
        if not incomplete.startswith("@"):
            return super().shell_complete(ctx, param, incomplete)
        names = (f"@{name}" for name in shipped.examples(self._kind))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
