"""rdma-core's conformance tests in a guest, and results in the forms that other tools read."""
