#!/bin/sh
# UCX's io_demo, whose ends check each other's data, over one transport:
# ucx.sh TRANSPORT [DIRECTORY]
# TRANSPORT is a word of UCX_TLS: rc_v, rc_x, dc_x, ud_v. DIRECTORY has another UCX, of a wheel.
here=$(dirname "$(realpath "$0")")
cd "$(mktemp -d)" || exit
. "$here/../storage/address.sh"
. "$here/pair.sh"
export UCX_TLS="$1" UCX_NET_DEVICES=mlx5_0:1
if [ $# -gt 1 ]; then export PATH="$2/bin:$PATH" LD_LIBRARY_PATH="$2/lib"; fi
options="-q -p 13337 -d 8:300000"
io_demo $options > server.log 2>&1 &
server=$!
started() { grep -q "started listener" server.log; }
await started
io_demo $options -i 20 -o read,write -c 1 "$address" > client.log 2>&1
status=$?
kill "$server"
wait "$server" 2> /dev/null
[ "$status" -eq 0 ] || tail -n 1 client.log >&2
exit "$status"
