"""``mlx5emu guide``: shows the pages of the guide and the examples in the terminal."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from emu.cli.shared.control import console
from emu.cli.shared.markdown import GuidePage
from emu.cli.shared.reference import with_reference
from emu.host import shipped
from emu.host.user_error import UserError
from emu.near import near

_FEW_KINDS = ("lab", "subnet", "campaign", "failure set", "program")
"""Kinds of examples that the list of pages names one by one."""
_MANUAL = "man"


def _complete(_ctx: click.Context, _param: click.Parameter, start: str) -> list[str]:
    names = (*shipped.pages(), _MANUAL, *(f"@{name}" for name in shipped.all_examples()))
    return [name for name in names if name.startswith(start)]


@click.command(short_help="Show a page of the guide, or an example.")
@click.argument("page", required=False, shell_complete=_complete)
def guide(page: str | None) -> None:
    """Show a PAGE of the guide, or an example @NAME; without PAGE, list the pages.

    A pipe gets the Markdown of a page. Examples are files that other commands accept by @NAME,
    programs, and pages that describe such files: @faults, @findings, @links, @recipes, @sriov,
    @switch. PAGE is also a file that a page names, such as examples/sriov/namespaces.sh. The page
    `man` is the manual of every command and option; after an installation man(1) finds it as well.

    Example: mlx5emu guide faults
    """
    pages = shipped.pages()
    if page == _MANUAL:
        _show_manual(shipped.manual())
        return
    if page is None:
        width = max(map(len, pages))
        for name, page_path in pages.items():
            with page_path.open() as file:
                click.echo(f"{name:{width}}  {file.readline().removeprefix('# ').strip()}")
        click.echo("\nExamples:")
        for kind in _FEW_KINDS:
            names = " ".join(f"@{one}" for one in shipped.examples(kind))
            click.echo(f"{kind + 's':{width}}  {names}")
        click.echo(f"{'plans':{width}}  listed on the pages @faults, @links and @findings")
        click.echo(f"{'recipes':{width}}  listed on the page @recipes")
        click.echo(
            f"{'files':{width}}  that pages name: mlx5emu guide examples/sriov/namespaces.sh"
        )
        return
    files, word = shipped.files(), page.lstrip("./").rstrip("/")
    name = word.removeprefix("share/guide/").removesuffix(".md")
    path = pages.get(name) or files.get(word) or files.get(f"{word}/README.md")
    if path is None and page.startswith("@"):
        path = _example(page[1:])
    if path is None:
        meant = near(name, pages) or near(word, files)
        raise UserError(f"no page {page!r}{meant}; pages are {', '.join(pages)}")
    text = with_reference(path.read_text())
    if not sys.stdout.isatty():
        click.echo(text, nl=False)
    elif path.suffix != ".md":
        click.echo_via_pager(text)
    else:
        screen = console()
        with screen.pager(styles=True):
            screen.print(GuidePage(text))


def _show_manual(path: Path) -> None:
    """Show the manual page by man(1); without that program, print its source."""
    program = shutil.which("man")
    if program is None:
        click.echo(path.read_text(), nl=False)
        return
    sys.stdout.flush()
    subprocess.run([program, "--local-file", path], check=False)


def _example(name: str) -> Path:
    """Return the file of an example, also by its path below ``examples/``.

    Raises UserError for an unknown one, with similar names or those that no page lists.
    """
    known = shipped.all_examples()
    path = known.get(name) or shipped.files().get(f"examples/{name}")
    if path is None:
        few = [one for kind in _FEW_KINDS for one in shipped.examples(kind)]
        names = near(name, known) or f"; examples are {', '.join(f'@{one}' for one in few)}"
        lists = "@faults, @links and @findings list plans, @recipes recipes"
        raise UserError(f"no example @{name}{names}; {lists}")
    return path
