"""Files of a command: examples by their names, and files to write, checked before the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from emu.host import shipped
from emu.host.user_error import UserError
from emu.host.userfiles import missing, why_not_writable


class NewFile(click.Path):
    """A file to write, in a directory that is there: one that a mistake names is not made."""

    def __init__(self, resolve_path: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path, resolve_path=resolve_path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a mistake of the user's if no file can be there."""
        path = super().convert(value, param, ctx)
        assert isinstance(path, Path)
        if not _is_default(param, ctx) and (why := why_not_writable(path)):
            self.fail(why, param, ctx)
        return path


def _is_default(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Return whether nobody has named the file: whoever writes it then checks it."""
    if ctx is None or param is None or param.name is None:
        return False
    return ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT


class Existing(click.Path):
    """A file or a directory that is there; of one that is not, near names are told."""

    def __init__(self, *, is_directory: bool = False, resolve_path: bool = False) -> None:
        super().__init__(
            exists=True,
            file_okay=not is_directory,
            dir_okay=is_directory,
            path_type=Path,
            resolve_path=resolve_path,
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails for one that is not there."""
        path = Path(value)
        if self.exists and not path.exists() and str(value) != "-":
            self.fail(missing("file" if self.file_okay else "directory", path), param, ctx)
        return super().convert(value, param, ctx)


class ExampleFile(Existing):
    """A file that is there, or ``@NAME``: an example that comes with the package."""

    def __init__(self, kind: str, resolve_path: bool = False, *, has_names: bool = False) -> None:
        """``kind`` is one of :data:`emu.host.shipped.FOLDERS`.

        With ``has_names`` a folder and a name that only the command knows are accepted, too.
        """
        super().__init__(resolve_path=resolve_path)
        self._kind = kind
        if has_names:
            self.exists, self.dir_okay = False, True

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
