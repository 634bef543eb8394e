"""Link aggregation (LAG): one function's RoCE uses two ports."""
