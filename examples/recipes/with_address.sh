#!/bin/sh
# Gives the first function an IP address, and adds it to a command: with_address.sh COMMAND [ARGUMENT...]
. "$(dirname "$(realpath "$0")")/../storage/address.sh"
exec "$@" "$address"
