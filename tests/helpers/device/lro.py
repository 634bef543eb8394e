"""The fields of a TIR with LRO, and the time for which it holds packets."""

LRO = {
    "packet_merge_mask": 3, "lro_max_ip_payload_size": 255, "lro_timeout_period_usecs": 32,
}  # fmt: skip
PERIOD_NS = 1000 * LRO["lro_timeout_period_usecs"]
