"""Files that a command will write: what cannot be written is told before the work, not after it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


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
