"""A capture of the functions' ports, in a file that Wireshark and tcpdump read."""
