"""Link aggregation (LAG): RoCE of one function by two ports."""
