"""The fuzzer: mutates what the driver reads from the device and watches the driver's code.

An input is a fault plan and a workload. :mod:`grammar` lists what rules can change, :mod:`mutate`
makes plans, :mod:`executor` carries them out in a guest, and :mod:`loop` keeps inputs that ran new
blocks of the driver, in a :mod:`corpus`.
"""
