# Loads the mlx5 driver and what sits on top of it, as udev would for the functions that it finds.
modprobe -a mlx5_core mlx5_ib ib_uverbs ib_umad rdma_ucm
