"""The synchronous client: the methods of ``AsyncClient``, on an event loop in a thread of its own.

Entry point: ``Client``. ``tools/async_to_sync.py`` generates it and its parts from the asynchronous
client, and a test compares them. ``app.py``, ``tasks.py`` and ``loop_thread.py`` are written by
hand.

Invariants: batching, heartbeats and lease renewal continue while the program does other work. After
a fork the client reopens or raises, and never shares a socket.

May import: everything in ``client`` except ``cluster`` and ``transport``. Nothing asynchronous
imports it.
"""
