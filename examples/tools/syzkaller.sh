#!/bin/sh
# syzkaller with emulated adapters in its machines:
#     examples/tools/syzkaller.sh CONFIG [SYZ-MANAGER-OPTION]...
# CONFIG is syz-manager's; syzkaller.cfg beside this file is one to copy. Its executor takes the devlink instance
# of 0000:00:10.0 into its network namespace, and the interface of the virtual function at 0000:00:11.0 for its
# packets, so that is where QEMU has the two functions of each machine. The kernel has mlx5 built in; QEMU is the
# one of `mlx5emu qemu`. DIRECTORY is where the sockets are, as CONFIG says.
set -eu
config=${1:?CONFIG}
shift
directory=${DIRECTORY:-/run/mlx5emu}
mkdir -p "$directory"
count=$(sed -n 's/.*"count": *\([0-9][0-9]*\).*/\1/p' "$config")

# One server has all functions, on one Ethernet segment: a machine that is killed and started again
# connects to it again.
functions=
for index in $(seq 0 $((${count:-1} - 1))); do
    functions="$functions --device connectx6dx --socket $directory/$index.devlink"
    functions="$functions --device connectx6dx-vf --socket $directory/$index.vf"
done
temporary=$(mktemp -d)
mkfifo "$temporary/said"
# shellcheck disable=SC2086 # these are words
mlx5emu serve $functions > "$temporary/said" &
server=$!
trap 'kill $server 2> /dev/null || true; wait $server || true; rm -r "$temporary"' EXIT
while read -r line && [ "$line" != ready ]; do :; done < "$temporary/said"
[ "$line" = ready ]
PATH="$(dirname "$(mlx5emu qemu)"):$PATH" syz-manager -config "$config" "$@"
