"""``mlx5emu guide``: the pages of the guide, in the terminal."""

from __future__ import annotations

import sys

import click
from rich.markdown import Markdown

from emu.cli.shared.control import console
from emu.host import shipped
from emu.host.user_error import UserError
from emu.near import near


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    return [name for name in shipped.pages() if name.startswith(start)]


@click.command()
@click.argument("page", required=False, shell_complete=_complete)
def guide(page: str | None) -> None:
    """Show a PAGE of the guide, or the list of its pages.

    `mlx5emu guide faults` is about fault plans. A pipe gets the page's Markdown.
    """
    pages = shipped.pages()
    if page is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            with path.open() as file:
                click.echo(f"{name:{width}}  {file.readline().removeprefix('# ').strip()}")
        return
    if page not in pages:
        raise UserError(f"no page {page!r}{near(page, pages)}; there are {', '.join(pages)}")
    text = pages[page].read_text()
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
        return
    screen = console()
    with screen.pager(styles=True):
        screen.print(Markdown(text))
