"""The commands of ``mlx5emu``, one module each, in rooms; see :mod:`emu.cli.main`."""
