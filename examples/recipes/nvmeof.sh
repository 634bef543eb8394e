#!/bin/sh
# The kernel's NVMe target, and the initiator of the Python package nvmeof.
export NQN=nqn.2026-11.org.example:mlx5emu # the initiator wants 11 bytes at least
here=$(dirname "$(realpath "$0")")
. "$here/../storage/address.sh"
sh "$here/../storage/nvme-rdma.sh" target "$address" || exit
python3 "$here/nvmeof_blocks.py" "$address" || exit
sh "$here/../storage/nvme-rdma.sh" remove "$address"
