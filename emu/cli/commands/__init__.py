"""The commands of ``mlx5emu``, one module each; see :mod:`emu.cli.main`."""
