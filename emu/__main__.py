"""``python -m emu`` is ``mlx5emu``."""

from emu.cli.main import main

main(prog_name="mlx5emu")
