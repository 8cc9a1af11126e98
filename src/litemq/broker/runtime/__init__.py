"""The base of the broker's capabilities.

Entry points: ``BrokerContext`` (shared by all capabilities), ``QueueEvents`` (events between them),
``Handler`` (a row of the request table, with its permission), ``Caller`` (the connection that a
request came from), ``DeferredAnswers`` (answers that need a thread, a task or a flush first),
``Alarms`` (callbacks in 5 ms slots), ``BackgroundTask`` (one run at a time, retried after a
failure), ``BrokerClock`` (wall time without steps), ``Throttle`` (a token bucket),
``TopicDirectory`` (topics by name).

Invariants: every request gets exactly one answer, also if its work raises. Broker time never runs
back.

May import: ``limits``, and ``litemq`` packages below the broker.
"""
