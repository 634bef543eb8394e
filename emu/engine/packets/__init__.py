"""Connected services and datagrams as packets: how messages go to another process."""
