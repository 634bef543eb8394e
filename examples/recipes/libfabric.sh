#!/bin/sh
# libfabric's pingpong with both ends in the guest, data checked: libfabric.sh PROVIDER TYPE
here=$(dirname "$(realpath "$0")")
cd "$(mktemp -d)" || exit
. "$here/../storage/address.sh"
. "$here/pair.sh"
fi_pingpong -p "$1" -e "$2" -I 10 -c -B 13400 > server.log 2>&1 &
server=$!
await listens 13400
fi_pingpong -p "$1" -e "$2" -I 10 -c -P 13400 "$address"
finish $?
