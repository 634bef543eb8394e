#!/bin/sh
# perftest between the guest's two functions: perftest.sh PROGRAM [OPTION...]
here=$(dirname "$(realpath "$0")")
cd "$(mktemp -d)" || exit
. "$here/pair.sh"
program=$1
shift
"$program" -d mlx5_1 "$@" > server.log 2>&1 &
server=$!
await listens 18515
"$program" -d mlx5_0 "$@" 127.0.0.1
finish $?
