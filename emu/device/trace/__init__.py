"""The device's trace: its trace points, decoded, as lines of JSON or text.

The core calls the trace points of :class:`emu.device.function.tracer.Tracer`.
:class:`emu.device.trace.recorder.Recorder` turns each call into one ``TraceEvent``, which it passes
to its sink, as a JSON line or a line of text. No module here does I/O.

A new trace point needs a name in ``TracePoint``, a method of ``Tracer`` and its counterpart in
``Recorder``. The recorder decodes by declared structures (:mod:`emu.device.trace.decode`) into a
dict. Both forms are derived from the dict; :mod:`emu.device.trace.text` may have a more readable
form.
"""
