"""The manual page, made of what the commands say of themselves with --help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from emu.cli.main import main

_HEAD = """\
.TH MLX5EMU 1 "" mlx5emu "User commands"
.SH NAME
mlx5emu \\- an emulated mlx5 RDMA adapter, and Linux guests that use it
.SH SYNOPSIS
.B mlx5emu
[\\fB\\-v\\fR] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]
.SH DESCRIPTION
A process serves an NVIDIA/Mellanox ConnectX function to QEMU over vfio\\-user; unmodified Linux
guests probe it with their own mlx5_core and mlx5_ib and use it.
.SH COMMANDS
"""

_TAIL = """\
.SH EXIT STATUS
.B run
and
.B replay
end with the status of the guest's command; 125 when the guest panicked or ended early, 124 after a
timeout or when the guest hung, 123 when the device server ended. Everything else: 0, 1 for what
could not be done, 2 for a wrong command line.
.SH FILES
.I ~/.cache/mlx5emu
holds guest images and the logs of the last runs; XDG_CACHE_HOME names another place than ~/.cache.
.SH SHELL COMPLETION
Bash: eval "$(_MLX5EMU_COMPLETE=bash_source mlx5emu)" in ~/.bashrc. Zsh: the same with zsh_source in
~/.zshrc. Fish: _MLX5EMU_COMPLETE=fish_source mlx5emu > ~/.config/fish/completions/mlx5emu.fish.
"""


def page() -> str:
    """The page, in the language of man(7)."""
    return _HEAD + "".join(_commands()) + _TAIL


def _commands() -> Iterator[str]:
    context = click.Context(main, info_name="mlx5emu")
    assert isinstance(main, click.Group)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if not command.hidden:
            yield from _command(command, click.Context(command, info_name=name, parent=context))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """One command with its options, and the commands below it."""
    path = context.command_path.partition(" ")[2]
    words = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_plain(path)} {_plain(words)}\n{_paragraphs(command.help or '')}"
    for parameter in command.get_params(context):
        help_record = parameter.get_help_record(context)
        if help_record is not None and "--help" not in help_record[0]:
            words, about = map(_plain, help_record)
            yield f".TP\n\\fB{words}\\fR\n{about or 'No more to say.'}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _command(below, click.Context(below, info_name=name, parent=context))


def _paragraphs(text: str) -> str:
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "".join(f"{_plain(' '.join(part.split()))}\n.PP\n" for part in parts)


def _plain(text: str) -> str:
    """Text that roff takes as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text
