"""Help whose lines do not break inside of what belongs together: options, code, limits, examples.

click and cloup break lines at spaces and hyphens. Until the lines are made, some of them are
replaced by characters at which no line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

_SPACE, _HYPHEN = "\N{NO-BREAK SPACE}", "\N{NON-BREAKING HYPHEN}"
_TOGETHER = re.compile(
    r"`[^`\n]{1,60}`"  # code
    r"|\[[^\[\]\n]{1,50}\]"  # a default or limits
    r"|(?<=Example: )\S[^\n]*"
    r"|\S*-\S*"
)


class _KeptTogether:
    """Methods of a help formatter of click or cloup."""

    def write_dl(self, rows: Sequence[tuple[str, Any]], *args: Any, **kwargs: Any) -> None:
        """Write a list of terms and their descriptions.

        A description of cloup's that is computed for the width is left unchanged.
        """
        kept = [
            (term, kept_together(text) if isinstance(text, str) else text) for term, text in rows
        ]
        super().write_dl(kept, *args, **kwargs)  # type: ignore[misc]

    def write_text(self, text: str, *args: Any, **kwargs: Any) -> None:
        """Write paragraphs."""
        super().write_text(kept_together(text), *args, **kwargs)  # type: ignore[misc]

    def getvalue(self) -> str:
        """Return the help, with plain spaces and hyphens."""
        text: str = super().getvalue()  # type: ignore[misc]
        return text.replace(_SPACE, " ").replace(_HYPHEN, "-")


def kept_together(text: str) -> str:
    """Return a text of help with characters at which no line breaks within what stays together."""
    return _TOGETHER.sub(lambda found: found[0].replace(" ", _SPACE).replace("-", _HYPHEN), text)


def format_help(command: click.Command) -> click.Command:
    """Let a command, and the commands of a group, format their help so; return the command."""
    base = command.context_class
    if not issubclass(base.formatter_class, _KeptTogether):
        command.context_class = _context_of(base)
    for inner in getattr(command, "commands", {}).values():
        format_help(inner)
    return command


def _context_of(base: type[click.Context]) -> type[click.Context]:
    """Return the class of contexts with a formatter that keeps together what belongs together."""
    formatter = base.formatter_class
    kept = type(formatter.__name__, (_KeptTogether, formatter), {})
    return type(base.__name__, (base,), {"formatter_class": kept})
