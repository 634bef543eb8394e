"""A subnet of two leaves, two spines, two functions and an adapter with two ports."""

FILE = """
Switch 4 "leaf0"
[1] "function0"[1]
[3] "spine0"[1]
[4] "spine1"[1]
Switch 4 "leaf1"
[1] "function1"[1]
[2] "other"[1]
[3] "spine0"[2]
[4] "spine1"[2]
Switch 4 "spine0"
Switch 4 "spine1"
Hca 1 "function0"
Hca 1 "function1"
Hca 2 "other"
"""
LEAF0, LEAF1, SPINE0, SPINE1, OTHER = 0, 1, 2, 3, 6
"""The numbers of nodes."""
