"""Fuzzing of the driver from the device's side: plans that are made up, and what the driver does.

An input is a fault plan and a workload. :mod:`grammar` says what a rule can change of what the
driver reads, :mod:`mutate` makes plans of it, :mod:`executor` carries one out in a guest,
:mod:`loop` keeps those that made new blocks of the driver run, in a :mod:`corpus`.
"""
