# Runs in each guest: IP over InfiniBand with the port's LID in its address, then the program.
#   inside.sh LID server|client PROGRAM [OPTION...]
set -eu

network=10.66.0
lid=$1 role=$2
shift 2

modprobe ib_ipoib
ip address add "$network.$lid/24" dev ib0
ip link set ib0 up
until ip link show ib0 | grep -q LOWER_UP; do sleep 0.1; done

[ "$role" = client ] || exec "$@"
for _ in $(seq 60); do # until the server's guest has booted and the program listens there
    if said=$("$@" "$network.1" 2>&1); then
        echo "$said"
        exit
    fi
    sleep 1
done
echo "$said" >&2
exit 1
