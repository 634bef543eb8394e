"""The help of ``mlx5emu``: its commands in sections, one for each package of commands.

A module of its own because cloup takes 40 ms to import on Python 3.11, which ``mlx5emu --version``
and ``mlx5emu exec`` need not pay.
"""

from __future__ import annotations

import importlib

import click
import cloup

from emu.cli import commands


class SectionedGroup(cloup.Group):
    """Shows a group of commands in sections; the group itself finds and runs the commands."""

    def __init__(self, shown: click.Group) -> None:
        super().__init__(
            shown.name,
            params=list(shown.params),
            help=shown.help,
            context_settings=shown.context_settings,
        )
        self._shown = shown

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return self._shown.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a name; None if there is none."""
        return self._shown.get_command(ctx, cmd_name)

    def list_sections(
        self, ctx: click.Context, include_default_section: bool = True
    ) -> list[cloup.Section]:
        """Return one section for each package below :mod:`emu.cli.commands`, in its order."""
        by_package: dict[str, dict[str, click.Command]] = {}
        modules = commands.modules()
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            package = modules[name].rpartition(".")[0]
            by_package.setdefault(package, {})[name] = command
        packages = sorted(by_package, key=commands.section_order)
        return [cloup.Section(title_of(one), by_package[one]) for one in packages]


def title_of(package: str) -> str:
    """Return the title of a package of commands: its docstring up to the colon."""
    about = importlib.import_module(package).__doc__ or package
    return about.partition(":")[0]


def help_of(group: click.Group, ctx: click.Context) -> str:
    """Return the help of ``group``, whose context is ``ctx``, with its commands in sections.

    All commands are imported.
    """
    shown = SectionedGroup(group)
    context = cloup.Context(
        shown,
        info_name=ctx.info_name,
        parent=ctx.parent,
        terminal_width=ctx.terminal_width,
        max_content_width=ctx.max_content_width,
        help_option_names=ctx.help_option_names,
    )
    return shown.get_help(context)
