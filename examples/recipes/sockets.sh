#!/bin/sh
# A protocol of sockets between two guests, ADDRESS and PEER: sockets.sh rds|smc server|client
here=$(dirname "$(realpath "$0")")
cd "$(mktemp -d)" || exit
. "$here/pair.sh"
gate=4242 # a TCP port that the server opens when it is ready
case $1 in
rds) module=rds_rdma ready='grep -q waits server.log' ;;
smc) module=smc ready='listens 5000' ;;
*) echo "sockets: no protocol $1" >&2 && exit 2 ;;
esac
modprobe "$module" || exit
program=$here/../sockets/$1.py
if [ "$2" = server ]; then
    python3 "$program" "$ADDRESS" > server.log 2>&1 &
    server=$!
    await $ready
    busybox nc -l -p "$gate" < /dev/null
    end_of_server
fi
until busybox nc "$PEER" "$gate" < /dev/null; do sleep 0.1; done
exec python3 "$program" "$ADDRESS" "$PEER"
