"""How packets are steered: flow tables, groups, entries, and what these do to a packet."""
