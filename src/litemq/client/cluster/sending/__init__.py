"""From a message to a frame: template, queue, sequence, batch, retry.

Entry points: ``Producer`` is every send of a client, ``TopicSender`` chooses the queue,
``QueueSender`` sends to one queue. ``Sequencer`` and ``CircuitBreaker`` are pure state machines.

Invariants: the records of a queue are numbered without a gap, and a request may be repeated until
its outcome is known, so a retried send is appended once (I3). The client tries another queue only
after a definite "not appended". Buffered sends are bounded in bytes.

May import: ``transport``, ``engine``, ``messages``.
"""
