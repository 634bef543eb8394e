#!/bin/sh
# A kernel in virtme-ng with an emulated adapter, on the host's own files:
#     examples/tools/virtme-ng.sh KERNEL [VNG-OPTION]... [-- COMMAND]
# KERNEL is what `vng --run` takes: a build tree's bzImage, or a version such as v6.12. It needs virtme-ng
# ("vng", Debian's package or PyPI's); QEMU is the one of `mlx5emu qemu`. DEVICE and MEMORY may be set. The
# adapter's driver is a module as a rule: modprobe mlx5_ib.
set -eu
kernel=${1:?KERNEL}
shift
memory=${MEMORY:-2G}
directory=$(mktemp -d)
mkfifo "$directory/said"
mlx5emu serve --socket "$directory/function" --device "${DEVICE:-connectx6}" > "$directory/said" &
server=$!
trap 'kill $server 2> /dev/null || true; wait $server || true; rm -r "$directory"' EXIT
while read -r line && [ "$line" != ready ]; do :; done < "$directory/said"
[ "$line" = ready ]
qemu=$(mlx5emu qemu)

# The server reads and writes the guest's memory, so it is shared; the adapter is a PCI Express device,
# for which a microvm has no place.
device='{"driver":"vfio-user-pci","id":"mlx5","bus":"mlx5port","x-msg-timeout":60000'
device="$device,\"socket\":{\"type\":\"unix\",\"path\":\"$directory/function\"}}"
vng --run "$kernel" --qemu "$qemu" --memory "$memory" --disable-microvm --force-9p \
    --qemu-opts="-object memory-backend-memfd,id=mlx5ram,size=$memory,share=on" \
    --qemu-opts="-machine memory-backend=mlx5ram" \
    --qemu-opts="-device pcie-root-port,id=mlx5port,chassis=28,slot=28" \
    --qemu-opts="-device '$device'" "$@"
