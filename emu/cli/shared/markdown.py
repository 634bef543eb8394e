"""Renders pages of the guide, whose commands and names must stay whole."""

from __future__ import annotations

from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table


class _Table(TableElement):
    """A table whose cells break a long word instead of cutting it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            for column in table.columns:
                column.overflow = "fold"
            yield table


class _Code(CodeBlock):
    """Code whose lines keep their length: the rest of a wrapped one would look like a command."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).rstrip())
        code.rstrip()
        code.no_wrap, code.overflow = True, "ignore"
        yield Padding(code, (1, 0))


class GuidePage(Markdown):
    """A page of the guide."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "table_open": _Table, "fence": _Code, "code_block": _Code,
    }  # fmt: skip
