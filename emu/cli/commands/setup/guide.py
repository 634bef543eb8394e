"""``mlx5emu guide``: the pages of the guide, and the examples, in the terminal."""

from __future__ import annotations

import sys

import click
from rich.markdown import Markdown

from emu.cli.shared.control import console
from emu.host import shipped
from emu.host.user_error import UserError
from emu.near import near


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    names = (*shipped.pages(), *(f"@{name}" for name in shipped.all_examples()))
    return [name for name in names if name.startswith(start)]


@click.command()
@click.argument("page", required=False, shell_complete=_complete)
def guide(page: str | None) -> None:
    """Show a PAGE of the guide, or the list of its pages; @NAME is an example.

    `mlx5emu guide faults` is about fault plans; a pipe gets the page's Markdown. An example is what
    other commands take as @NAME, or a program: `mlx5emu guide @exchange.py > exchange.py`.
    """
    pages = shipped.pages()
    if page is None:
        width = max(map(len, pages))
        for name, path in pages.items():
            with path.open() as file:
                click.echo(f"{name:{width}}  {file.readline().removeprefix('# ').strip()}")
        return
    if page.startswith("@"):
        _show_example(page[1:])
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


def _show_example(name: str) -> None:
    """Print the file of an example. Raises UserError, with near names, if there is none."""
    known = shipped.all_examples()
    if name not in known:
        raise UserError(f"no example @{name}{near(name, known)}")
    text = known[name].read_text()
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        click.echo(text, nl=False)
