"""What every capability of the broker is built on.

Entry points: ``Caller`` (the connection that a request came from), ``Answering`` (answers that need a
thread, a task or a flush first), ``Alarms`` (callbacks in 5 ms slots), ``Errand`` (a background task),
``BrokerTime`` (wall time without its steps), ``Pace`` (a token bucket), ``parse`` (request headers).

Invariants: every request gets exactly one answer, also if its work raises. Broker time never runs back.

May import: ``limits``, and ``litemq`` packages below the broker.
"""
