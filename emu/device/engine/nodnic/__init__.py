"""A NIC without DRAM: the Ethernet port for boot firmware, without firmware commands."""
