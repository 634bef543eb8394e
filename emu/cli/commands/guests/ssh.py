"""``mlx5emu ssh``: OpenSSH to a running guest."""

from __future__ import annotations

import os

import click

from emu.cli.runs.execute import execute
from emu.guests.errors import LabError
from emu.guests.named import ssh


@click.command(
    short_help="Log in to a running guest by ssh.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--config",
    is_flag=True,
    help="Print the lines for ~/.ssh/config with which ssh and scp find NAME.mlx5emu.",
)
@click.option("--proxy", metavar="HOST", hidden=True, help="Run as ssh's ProxyCommand.")
@click.argument("name", required=False)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def command(config: bool, proxy: str | None, name: str | None, words: tuple[str, ...]) -> None:
    """Log in to the guest NAME (in a lab, LAB/GUEST) by ssh, or run COMMAND there.

    The guest needs the package openssh-server, but no network. Options of ssh may precede COMMAND.
    With --config, guests of a lab are GUEST.LAB.mlx5emu.

    Example: mlx5emu ssh dev -- uname -r
    """
    if (name is not None) + (proxy is not None) + config != 1:
        raise click.UsageError("give the name of a guest, or --config")
    if config:
        click.echo(ssh.config(), nl=False)
    elif proxy is not None:
        execute(ssh.name_of(proxy), tuple(ssh.server_words()), terminal=False, timeout=None)
    elif name is not None:
        ssh.check(name)
        _log_in(name, words)


def _log_in(name: str, words: tuple[str, ...]) -> None:
    """Replace this process by ssh to the guest. Raises LabError without ssh."""
    try:
        os.execvp("ssh", ["ssh", "-F", str(ssh.config_file()), ssh.host_of(name), *words])
    except FileNotFoundError:
        raise LabError("ssh is not installed: apt-get install openssh-client") from None
