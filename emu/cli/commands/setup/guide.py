"""``mlx5emu guide``: shows the pages of the guide and the examples in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.markdown import Markdown

from emu.cli.shared.control import console
from emu.cli.shared.reference import with_reference
from emu.host import shipped
from emu.host.user_error import UserError
from emu.near import near


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    names = (*shipped.pages(), *(f"@{name}" for name in shipped.all_examples()))
    return [name for name in names if name.startswith(start)]


@click.command(short_help="Show a page of the guide, or an example.")
@click.argument("page", required=False, shell_complete=_complete)
def guide(page: str | None) -> None:
    """Show a PAGE of the guide, or an example @NAME; without PAGE, list the pages.

    A pipe gets the Markdown of a page. Examples are files that other commands accept by @NAME,
    programs, and the pages @faults, @findings, @links and @switch, which describe such files.

    Example: mlx5emu guide faults
    """
    pages = shipped.pages()
    if page is None:
        width = max(map(len, pages))
        for name, page_path in pages.items():
            with page_path.open() as file:
                click.echo(f"{name:{width}}  {file.readline().removeprefix('# ').strip()}")
        click.echo("\nExamples:")
        for kind in ("lab", "subnet", "campaign", "failure set", "program"):
            names = " ".join(f"@{one}" for one in shipped.examples(kind))
            click.echo(f"{kind + 's':{width}}  {names}")
        click.echo(f"{'plans':{width}}  listed on the pages @faults, @links and @findings")
        return
    path = _example(page[1:]) if page.startswith("@") else pages.get(page)
    if path is None:
        raise UserError(f"no page {page!r}{near(page, pages)}; pages are {', '.join(pages)}")
    text = with_reference(path.read_text())
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
    elif path.suffix != ".md":
        click.echo_via_pager(text)
    else:
        screen = console()
        with screen.pager(styles=True):
            screen.print(Markdown(text))


def _example(name: str) -> Path:
    """Return the file of an example. Raises UserError, with similar names, for an unknown one."""
    known = shipped.all_examples()
    if name not in known:
        raise UserError(f"no example @{name}{near(name, known)}")
    return known[name]
