"""What every capability of the broker is built on.

Entry points: ``BrokerContext`` (what all capabilities share), ``QueueEvents`` (what happened, and who
listens), ``Handler`` (a row of the request table, with its permission), ``Caller`` (the connection that a
request came from), ``DeferredAnswers`` (answers that need a thread, a task or a flush first), ``Alarms``
(callbacks in 5 ms slots), ``BackgroundTask`` (one run at a time, retried after a failure), ``BrokerClock``
(wall time without steps), ``Throttle`` (a token bucket), ``TopicDirectory`` (topics by name).

Invariants: every request gets exactly one answer, also if its work raises. Broker time never runs back.

May import: ``limits``, and ``litemq`` packages below the broker.
"""
