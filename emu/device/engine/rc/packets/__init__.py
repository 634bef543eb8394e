"""Connected services and datagrams in packets: how messages reach another process."""
