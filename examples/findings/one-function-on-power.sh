#!/bin/sh
# QEMU aborts when a pseries machine has one vfio-user function; no guest is needed.
#   sh examples/findings/one-function-on-power.sh [qemu-system-ppc64 [ARGUMENT...]]
# Status 0: QEMU has aborted. MLX5EMU names another program than mlx5emu.
work=$(mktemp -d)
${MLX5EMU:-mlx5emu} serve --socket "$work/function" > "$work/log" 2>&1 &
server=$!
trap 'kill $server; rm -r "$work"' EXIT
trap 'exit 130' INT TERM
until [ -S "$work/function" ]; do
    kill -0 $server || { cat "$work/log"; exit 1; }
    sleep 0.1
done
[ $# -gt 0 ] || set -- qemu-system-ppc64
function='{"driver": "vfio-user-pci", "socket": {"type": "unix", "path": "'$work/function'"}}'
timeout 10 "$@" -nodefaults -display none -serial none -monitor none -m 512M \
    -machine pseries,memory-backend=memory -device "$function" \
    -object memory-backend-memfd,id=memory,size=512M,share=on
[ $? = 134 ]
