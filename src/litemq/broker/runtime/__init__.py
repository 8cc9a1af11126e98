"""What every capability of the broker is built on.

Entry points: ``BrokerContext`` (what all capabilities share), ``QueueEvents`` (what happened, and who
listens), ``Handler`` (a row of the request table, with its permission), ``Caller`` (the connection that a
request came from), ``Answering`` (answers that need a thread, a task or a flush first), ``Alarms``
(callbacks in 5 ms slots), ``Errand`` (a background task), ``BrokerTime`` (wall time without its steps).

Invariants: every request gets exactly one answer, also if its work raises. Broker time never runs back.

May import: ``limits``, and ``litemq`` packages below the broker.
"""
