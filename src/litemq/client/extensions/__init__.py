"""Extension points: middleware around sends and handlers, and plug-ins.

Entry points: ``Middleware`` (nested layers, the first added is the outermost) and ``Plugin``
(hooks, found by the entry point ``litemq.plugins``).

Invariants: an exception of a middleware reaches the caller, as one of the function it wraps would.
An exception of a plug-in is logged and changes nothing else.

May import: ``messages``.
"""
