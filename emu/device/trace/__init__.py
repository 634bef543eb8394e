"""The device's trace: its trace points, decoded, as lines of JSON or text.

The core calls the trace points of :class:`emu.device.function.tracer.Tracer`.
:class:`emu.device.trace.recorder.Recorder` turns each call into one
``TraceEvent``, which goes as a JSON line or a line of text to wherever the recorder's sink leads.
Nothing here does I/O.

A new trace point takes a name in ``TracePoint``, a method of ``Tracer`` and its twin in
``Recorder``, which decodes by declared structures (:mod:`emu.device.trace.decode`) into a dict.
Both forms follow from the dict; :mod:`emu.device.trace.text` may put it into nicer words.
"""
