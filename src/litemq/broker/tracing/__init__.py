"""The trace: the events of each message, as records of the topic ``LITEMQ_SYS_TRACE``.

Entry points: ``TraceRecorder`` writes trace events, ``TracedCallers`` wraps
callers so that their answers are traced.

Invariants: tracing is asynchronous and never delays a request. The broker drops events that arrive
faster than it can write them, and records the number dropped.

May import: ``runtime``, ``limits``.
"""
