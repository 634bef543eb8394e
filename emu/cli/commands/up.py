"""``mlx5emu up``: a guest that lives on, for `exec`, `ssh` and `dmesg`, until `down`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import click

from emu.cli.commands._guest_options import (
    described,
    dump_option,
    guest_options,
    prepare,
    to_options,
)
from emu.lab import Guest
from emu.lab.named import keeper
from emu.lab.named.door import Inhabitant


@click.command()
@click.argument("name")
@guest_options
@dump_option
def up(name: str, **choices: Any) -> None:
    """Start a guest that runs in the background until `mlx5emu down NAME`."""
    options = to_options(**choices)
    prepare(options)

    def start(stack: contextlib.ExitStack) -> Mapping[str, Inhabitant]:
        return {name: stack.enter_context(Guest(options))}

    keeper.launch(name, described(options), start)
    click.echo(f"{name} is up: mlx5emu exec {name} -- COMMAND")
