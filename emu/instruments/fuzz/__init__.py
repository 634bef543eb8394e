"""The fuzzer: mutates data that the driver reads from the device and watches the driver's code.

An input is a fault plan and a workload. :mod:`grammar` lists the data that rules can change, and
:mod:`mutate` makes plans. :mod:`executor` carries them out in a guest. :mod:`loop` keeps inputs
that ran new blocks of the driver, in a :mod:`corpus`.
"""
