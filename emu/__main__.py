"""Runs ``mlx5emu`` for ``python -m emu``."""

from emu.cli.main import main

main(prog_name="mlx5emu")
