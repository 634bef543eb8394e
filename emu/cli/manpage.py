"""Generates the manual page from the commands' help; scripts/gen-man-page writes it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence

import click
import cloup

from emu.cli.main import main
from emu.cli.sections import SectionedGroup

_HEAD = """\
.TH MLX5EMU 1 "" mlx5emu "User commands"
.SH NAME
mlx5emu \\- an emulated mlx5 RDMA adapter, and Linux guests that use it
.SH SYNOPSIS
.B mlx5emu
[\\fB\\-v\\fR] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]
.SH DESCRIPTION
A process serves an NVIDIA/Mellanox ConnectX function to QEMU over vfio\\-user; unmodified Linux
guests use it with their own mlx5_core and mlx5_ib.
"""

_TAIL = """\
.SH EXIT STATUS
.B run
and
.B replay
exit with the status of the guest's command; 125 if the guest panicked or ended early, 124 after a
timeout or if the guest hangs, 123 if the device server ended, 122 for a failure in the kernel log.
Other commands: 0, 1 for a failure, 2 for a wrong command line or file.
.SH ENVIRONMENT
.TP
.B MLX5EMU_QEMU
a QEMU 10.1 or newer with vfio\\-user\\-pci, for guests of the host's architecture.
.TP
.B MLX5EMU_MIRROR
URI of the Debian archive; by default that of the machine's apt, whose proxy is used as well.
.TP
.B MLX5EMU_COMPILED
0 for pure Python, 1 for compiled code in every program that imports emu.
.TP
.B MLX5EMU_LIBVFIO_USER
the library of \\-\\-transport libvfio\\-user.
.TP
.B TMPDIR
directory of image builds, by default /var/tmp.
.SH FILES
.I ~/.cache/mlx5emu
holds guest images, compiled code and the logs of the last runs; XDG_CACHE_HOME replaces ~/.cache.
.SH SHELL COMPLETION
Bash: eval "$(_MLX5EMU_COMPLETE=bash_source mlx5emu)" in ~/.bashrc. Zsh: use zsh_source in
~/.zshrc. Fish: _MLX5EMU_COMPLETE=fish_source mlx5emu > ~/.config/fish/completions/mlx5emu.fish.
"""


def page() -> str:
    """Return the page in man(7) format."""
    return _HEAD + "".join(_commands()) + _TAIL


def _commands() -> Iterator[str]:
    """Yield the sections with all commands in man(7) format."""
    context = click.Context(main, info_name="mlx5emu")
    assert isinstance(main, click.Group)
    for section in SectionedGroup(main).list_sections(context):
        yield f".SH {_plain(section.title.upper())}\n"
        for name, command in section.list_commands():
            yield from _command(command, click.Context(command, info_name=name, parent=context))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a command with its groups of options, then its subcommands."""
    path = context.command_path.partition(" ")[2]
    words = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_plain(path)} {_plain(words)}\n{_paragraphs(command.help or '')}"
    for title, options in _option_groups(command, context):
        if title:
            yield f".PP\n.I {_plain(title)}\n"
        for option in options:
            help_record = option.get_help_record(context)
            if help_record is not None and "--help" not in help_record[0]:
                words, about = map(_plain, help_record)
                yield f".TP\n\\fB{words}\\fR\n{about}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _command(below, click.Context(below, info_name=name, parent=context))


def _option_groups(
    command: click.Command, context: click.Context
) -> Iterator[tuple[str, Sequence[click.Parameter]]]:
    """Yield the title and options of each group; a command without groups has one, untitled."""
    if not isinstance(command, cloup.Command) or not command.option_groups:
        yield "", command.get_params(context)
        return
    groups = [*command.option_groups, command.get_default_option_group(context)]
    for group in groups:
        options = [one for one in group if not one.hidden and "--help" not in one.opts]
        if options:
            yield group.title, options


def _paragraphs(text: str) -> str:
    """Return the paragraphs of a help text; those behind click's ``\\b`` keep their lines."""
    parts = re.split(r"\n\s*\n", inspect.cleandoc(text))
    return "".join(f"{_paragraph(part)}\n.PP\n" for part in parts)


def _paragraph(part: str) -> str:
    first, *lines = part.splitlines()
    if first.strip() == "\b":
        return "\n".join([".nf", *map(_plain, lines), ".fi"])
    return _plain(" ".join(part.split()))


def _plain(text: str) -> str:
    """Escape text for roff."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text
