"""``mlx5emu ssh``: OpenSSH into a guest that runs."""

from __future__ import annotations

import os

import click

from emu.cli.runs.execute import execute
from emu.guests.errors import LabError
from emu.guests.named import ssh


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--config",
    is_flag=True,
    help="Print what ~/.ssh/config wants, so that ssh, scp and others find NAME.mlx5emu.",
)
@click.option("--proxy", metavar="HOST", hidden=True, help="Be ssh's ProxyCommand.")
@click.argument("name", required=False)
@click.argument("words", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def command(config: bool, proxy: str | None, name: str | None, words: tuple[str, ...]) -> None:
    """Log in to the guest NAME (in a lab, LAB/GUEST) by ssh, or run COMMAND there.

    The guest has to have the package openssh-server; it needs no network. Options of ssh may stand
    before COMMAND. In ~/.ssh/config, a lab's guests are GUEST.LAB.mlx5emu.
    """
    if (name is not None) + (proxy is not None) + config != 1:
        raise click.UsageError("name a guest, or say --config")
    if config:
        click.echo(ssh.config(), nl=False)
    elif proxy is not None:
        execute(ssh.name_of(proxy), tuple(ssh.server_words()), terminal=False, timeout=None)
    elif name is not None:
        ssh.check(name)
        _log_in(name, words)


def _log_in(name: str, words: tuple[str, ...]) -> None:
    try:
        os.execvp("ssh", ["ssh", "-F", str(ssh.config_file()), ssh.host_of(name), *words])
    except FileNotFoundError:
        raise LabError("ssh is not installed: apt-get install openssh-client") from None
