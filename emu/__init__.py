"""An emulated mlx5 HCA: device core, transports, fabric, guest lab and command line."""

import os

if os.environ.get("MLX5EMU_COMPILED"):
    # Here, because pure and compiled modules do not mix: nothing else of emu is imported yet.
    from emu.compiled.loading import install

    install()
