"""An emulated mlx5 HCA: device core, transports, fabric, guest lab and command line."""
