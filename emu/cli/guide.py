"""Generates the index of the guide: its pages, and the commands with the pages that use them.

The index consists of the commands' short help and the titles of the pages; scripts/gen-man-page
writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

_HEAD = """\
# Guide

Each page describes one task, with its commands. `mlx5emu guide man`, or `man mlx5emu` after an
installation, has every option. `scripts/gen-man-page` writes that page and this one.

"""
_COMPLETION = """
Shells complete commands, options, models, kernels, kinds of objects and fault rules. For bash, put
`eval "$(_MLX5EMU_COMPLETE=bash_source mlx5emu)"` into ~/.bashrc; for zsh and fish, use
`zsh_source` and `fish_source`.
"""


def index(main: click.Command, pages: Path) -> str:
    """Return the text of README.md of a folder of pages; it is not written.

    The title of a page is its first line.
    """
    texts = {path.name: path.read_text() for path in sorted(pages.glob("*.md"))}
    del texts["README.md"]
    titles = {name: text.partition("\n")[0].removeprefix("# ") for name, text in texts.items()}
    rows = [f"- [{title}]({name})" for name, title in titles.items()]
    head = [_HEAD, *rows, "", "| command | what it does | shown in |"]
    lines = [*head, "|---|---|---|", *_commands(main, texts)]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n" + _COMPLETION


def _commands(main: click.Command, texts: dict[str, str]) -> Iterator[str]:
    """Yield a table row for each command that is not hidden, with the pages that show it."""
    context = click.Context(main, info_name="mlx5emu")
    assert isinstance(main, click.Group)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if command is None or command.hidden:
            continue
        shows = re.compile(rf"mlx5emu {re.escape(name)}\b")
        pages = [page for page, text in texts.items() if shows.search(text)]
        shown = " ".join(f"[{page.removesuffix('.md')}]({page})" for page in pages)
        yield f"| `{name}` | {command.get_short_help_str(120)} | {shown} |"
