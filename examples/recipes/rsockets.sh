#!/bin/sh
# A program of TCP sockets over RDMA, by librspreload: both ends compare what arrives.
here=$(dirname "$(realpath "$0")")
. "$here/../storage/address.sh"
LD_PRELOAD=$(echo /usr/lib/*/rsocket/librspreload.so)
export LD_PRELOAD
exec python3 "$here/rsockets.py" "$address"
