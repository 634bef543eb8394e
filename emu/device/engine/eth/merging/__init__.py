"""Merging of TCP packets: which packets of a stream belong together, and how LRO merges them."""
