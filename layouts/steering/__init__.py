"""Steering of packets: flow tables, groups, entries, and their actions on a packet."""
