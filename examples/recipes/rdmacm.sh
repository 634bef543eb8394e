#!/bin/sh
# A program of librdmacm with both ends in the guest: rdmacm.sh rping|rstream|udaddy
here=$(dirname "$(realpath "$0")")
cd "$(mktemp -d)" || exit
. "$here/../storage/address.sh"
. "$here/pair.sh"
case $1 in
rping) on="rping -s -a $address -V -C 20 -S 1000" to="rping -c -a $address -V -C 20 -S 1000" ;;
rstream) on="rstream -S 65536 -C 20 -T v" to="rstream -S 65536 -C 20 -T v -s $address" ;;
udaddy) on=udaddy to="udaddy -s $address" ;;
*) echo "rdmacm: no program $1" >&2 && exit 2 ;;
esac
$on > server.log 2>&1 &
server=$!
sleep 1 # a listener of rdma_cm is no socket
$to
finish $?
