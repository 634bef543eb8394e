"""Types of file arguments, checked before the command starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from emu.host import shipped
from emu.host.user_error import UserError
from emu.host.userfiles import missing_text, why_not_writable

_NAMED = "mlx5emu.files"
"""Key of a context's ``meta``: the files named so far, each with its parameter and use."""


class NewFile(click.Path):
    """A file to write in an existing directory; missing directories are not created."""

    def __init__(self, resolve_path: bool = False, *, replaces: bool = False) -> None:
        """With ``replaces`` the command has read its other files when it writes this one."""
        super().__init__(dir_okay=False, writable=True, path_type=Path, resolve_path=resolve_path)
        self._is_written_early = not replaces

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path, without creating the file; fail if the file cannot be written.

        Fail as well if another parameter names the file. An option's default is not checked.
        """
        path = super().convert(value, param, ctx)
        assert isinstance(path, Path)
        if not _is_default(param, ctx):
            if why := why_not_writable(path):
                self.fail(why, param, ctx)
            _check_alone(self, path, param, ctx, is_written=self._is_written_early)
        return path


def check_apart(written: Iterable[tuple[str, Path | None]]) -> None:
    """Raise UsageError if two options would make the same file or socket.

    ``written`` has options with their paths; a path that is None is skipped. Pipes and devices such
    as /dev/null may be named twice.
    """
    named: dict[str, str] = {}
    for option, path in written:
        if path is None or (path.exists() and not path.is_file() and not path.is_socket()):
            continue
        where = os.path.realpath(path)
        if where in named:
            if option == named[where]:
                raise click.UsageError(f"{option} names {path} twice: each needs its own path")
            raise click.UsageError(
                f"{path} is a path of {named[where]} and of {option}: each needs its own"
            )
        named[where] = option


def _check_alone(
    kind: click.Path,
    path: Path,
    param: click.Parameter | None,
    ctx: click.Context | None,
    *,
    is_written: bool,
) -> None:
    """Fail for a file that two parameters name and one of them writes.

    Pipes and devices such as /dev/null may be named twice.
    """
    if param is None or ctx is None or (path.exists() and not path.is_file()):
        return
    named: dict[str, tuple[click.Parameter, bool]] = ctx.meta.setdefault(_NAMED, {})
    other, is_other_written = named.setdefault(os.path.realpath(path), (param, is_written))
    if other is not param and (is_written or is_other_written):
        kind.fail(f"{path} is the file of {other.get_error_hint(ctx)}, too", param, ctx)


def _is_default(param: click.Parameter | None, ctx: click.Context | None) -> bool:
    """Return whether the path is the option's default, which the command checks before use."""
    if ctx is None or param is None or param.name is None:
        return False
    return ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT


class Existing(click.Path):
    """An existing file or directory; the error for a missing one lists similar names."""

    def __init__(
        self, *, is_directory: bool = False, resolve_path: bool = False, is_stream: bool = False
    ) -> None:
        """With ``is_stream`` the value is a text, and "-" stands for a standard stream.

        With ``resolve_path`` other processes may open the path again, so a pipe is refused.
        """
        super().__init__(
            exists=True,
            file_okay=not is_directory,
            dir_okay=is_directory,
            path_type=str if is_stream else Path,
            resolve_path=resolve_path,
            allow_dash=is_stream,
        )

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; fail, with similar names, if it does not exist. ``-`` is not checked."""
        path = Path(value)
        if str(value) != "-":
            if self.exists and not path.exists():
                text = missing_text("file" if self.file_okay else "directory", path)
                self.fail(text + self._hint(path), param, ctx)
            if self.resolve_path and path.is_fifo():
                why = "name a file, which another process opens later"
                self.fail(f"{path} is a pipe: {why}", param, ctx)
            _check_alone(self, path, param, ctx, is_written=False)
        return super().convert(value, param, ctx)

    def _hint(self, _path: Path) -> str:
        """Return what to add to the error for a missing path."""
        return ""


class ExampleFile(Existing):
    """An existing file, or ``@NAME``, an example of the package."""

    def __init__(self, kind: str, resolve_path: bool = False, *, has_names: bool = False) -> None:
        """``kind`` is one of :data:`emu.host.shipped.FOLDERS`.

        With ``has_names`` folders, and names that only the command can resolve, are accepted, too.
        """
        super().__init__(resolve_path=resolve_path)
        self._kind = kind
        if has_names:
            self.exists, self.dir_okay = False, True

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of a file, or of the example ``@NAME``; fail for an unknown example.

        An existing file whose name begins with ``@`` is preferred. A missing file fails too, unless
        ``has_names``; if an example has its file name, the error says so, also with ``has_names``.
        """
        try:
            found = shipped.named_example(self._kind, str(value))
        except UserError as error:
            self.fail(str(error), param, ctx)
        if found is not None:
            return found
        path = Path(value)
        if not self.exists and not path.exists() and (hint := self._hint(path)):
            self.fail(missing_text("file", path) + hint, param, ctx)
        return super().convert(value, param, ctx)

    def _hint(self, path: Path) -> str:
        """Return the name of the example that has this file name, in words; "" if none has.

        The suffix may be missing.
        """
        known = shipped.examples(self._kind)
        named = [name for name, one in known.items() if path.name in (name, one.name)]
        return f"; @{named[0]} is an example of that name" if named else ""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return completions of examples for a word that begins with ``@``, else of files."""
        if not incomplete.startswith("@"):
            return super().shell_complete(ctx, param, incomplete)
        names = (f"@{name}" for name in shipped.examples(self._kind))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
