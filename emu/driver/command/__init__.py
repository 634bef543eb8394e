"""Commands, registers and event queues, as mlx5_core uses them."""
