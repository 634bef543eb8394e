# Loads the mlx5 driver and the modules above it, like udev for the functions that it finds.
modprobe -a mlx5_core mlx5_ib ib_uverbs ib_umad rdma_ucm
