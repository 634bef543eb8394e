"""A group of subcommands that answers words of other tools with its own command."""

from __future__ import annotations

from typing import NoReturn

import click

_MEANINGS = (
    frozenset({"remove", "rm", "del", "delete", "clear", "reset", "down", "clean", "flush"}),
    frozenset({"list", "ls", "show", "status", "ps", "print", "get", "info", "report"}),
    frozenset({"up", "start", "run", "create", "launch", "begin", "resume", "continue", "boot"}),
    frozenset({"down", "stop", "kill", "end", "destroy", "shutdown", "halt", "poweroff"}),
    frozenset({"set", "add", "new", "create", "insert", "inject", "load", "change", "update"}),
    frozenset({"exec", "sh", "shell", "console", "attach", "ssh", "enter"}),
    frozenset({"cp", "copy", "push", "pull", "scp"}),
    frozenset({"logs", "log", "journal"}),
    frozenset({"guide", "help", "man", "docs", "doc"}),
    frozenset({"check", "validate", "verify", "lint"}),
    frozenset({"count", "stats", "statistics", "summary"}),
)
"""Words with one meaning; the commands of a group in a set answer its other words."""
_WHOLE = {("fault", "clear"): "fault remove --all", ("fault", "reset"): "fault remove --all"}
"""Answers that need more than a command's name."""
_RENAMED = {("", "suite"): "rdma-tests"}
"""Commands of earlier releases, by their groups and names, and the commands of today."""


def meant(group: str, word: str, commands: list[str]) -> list[str]:
    """Return the commands of a group that ``word`` can mean, as users type them after mlx5emu.

    ``group`` is its name, empty for the program itself.
    """
    if whole := _WHOLE.get((group, word)):
        return [whole]
    found = [one for meaning in _MEANINGS if word in meaning for one in commands if one in meaning]
    return [f"{group} {one}".strip() for one in dict.fromkeys(found)]


def fail_unknown(ctx: click.Context, word: str, commands: list[str], group: str = "") -> NoReturn:
    """Raise UsageError for an unknown command, with those that it can mean or is similar to.

    For a command of an earlier release the error has only its name of today.
    """
    from emu.near import near  # only a mistake needs it

    if new := _RENAMED.get((group, word)):
        ctx.fail(f"{word} is now {new}")
    answers = meant(group, word, commands)
    hint = f"; use {' or '.join(answers)}" if answers else near(word, commands)
    if not hint and group:
        hint = f"; commands: {', '.join(commands)}"
    ctx.fail(f"No such command {word!r}{hint}")


class NamedGroup(click.Group):
    """A group whose message about an unknown command names the right one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the first word, its command and the other words.

        Raises UsageError for an unknown command. A word that begins with "-" is left to click.
        """
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            fail_unknown(ctx, word, self.list_commands(ctx), self.name or "")
        return super().resolve_command(ctx, args)
