"""Commands, registers, event queues: what mlx5_core does."""
