"""rdma-core's conformance tests in a guest, and results in the formats of other tools."""
