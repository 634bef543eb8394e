"""Faults: the device fails exactly where a plan says, the same way every time.

A plan (:mod:`emu.device.faults.plan`) is a list of rules. Each names a point that the device's
dispatchers pass, the events there that it is about, which of them fail (in the words of the
kernel's Documentation/fault-injection: probability, interval, times, space) and what happens.
Handlers know nothing of it: the points lie in the command interface, the writers of EQEs and CQEs,
the doorbells, and around memory, interrupts and wire, where they are only while rules want them.
Each is declared once, in :mod:`emu.device.faults.points`.

A fault is always one that a rule injects; the faults of on-demand paging are page faults.

Whether a rule fires depends on the plan's seed and on how many events the rule has met, and on
nothing else: the same plan and the same actions of the driver give the same faults.
"""
