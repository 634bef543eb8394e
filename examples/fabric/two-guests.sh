#!/bin/sh
# Boots two guests on one fabric and runs a perftest program between them: a server in the first,
# its client in the second. Needs mlx5emu in PATH, or its command in MLX5EMU.
#   two-guests.sh [PROGRAM [OPTION...]]        default: ib_write_bw -F -s 65536 -n 500
set -eu

here=$(dirname "$(readlink -f "$0")")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
[ $# -gt 0 ] || set -- ib_write_bw -F -s 65536 -n 500

guest() { # LID ROLE
    lid=$1 role=$2
    shift 2
    ${MLX5EMU:-mlx5emu} run --fabric "unix:$directory/fabric" --device "connectx6-vf,lid=$lid" \
        --share "$here" -- sh /mnt/share/inside.sh "$lid" "$role" "$@"
}

guest 1 server "$@" > "$directory/server.log" 2>&1 &
server=$!
guest 2 client "$@"
wait $server
