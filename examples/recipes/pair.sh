# Two processes of one program, a server and a client; to be sourced. The caller sets $server, the
# server's process, whose output is in server.log. Neither wait outlives the server.

# await COMMAND...: until COMMAND succeeds; ends with the server's status, or 1, if the server ends
# before.
await() {
    until "$@"; do
        kill -0 "$server" 2> /dev/null || end_of_server 1
        sleep 0.1
    done
}

listens() { ss -Hltn "sport = :$1" | grep -q .; }

# end_of_server [STATUS]: ends with the server's status, or STATUS if that is 0, and its last lines
# as the evidence.
end_of_server() {
    status=0
    wait "$server" || status=$?
    [ "$status" -ne 0 ] || status=${1:-0}
    [ "$status" -eq 0 ] || tail -n 3 server.log >&2
    exit "$status"
}

# finish STATUS: ends with the client's status; if that is 0, with the server's.
finish() {
    [ "$1" -ne 0 ] || end_of_server
    kill "$server" 2> /dev/null
    wait "$server" 2> /dev/null
    exit "$1"
}
