"""Fault injection: the device fails exactly where a plan says, reproducibly.

A plan (:mod:`emu.device.faults.plan`) is a list of rules. Each names a point of the device's
dispatchers, the events there that it matches, which of them fail (in the terms of the kernel's
Documentation/fault-injection: probability, interval, times, space) and the action. Handlers are not
involved: the points are in the command interface, the writers of EQEs and CQEs, and the doorbells.
Memory, interrupts and wire are wrapped only while rules need it. Each point is declared once, in
:mod:`emu.device.faults.points`.

"Fault" always means an injected one; the faults of on-demand paging are page faults.

Whether a rule fires depends only on the plan's seed and on the number of events that the rule has
matched: the same plan and the same actions of the driver give the same faults.
"""
