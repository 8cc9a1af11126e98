"""Other message systems, loaded in the same way as LiteMQ: for ``litemq bench suite peers``.

Entry points: ``find_peers`` returns those whose server and Python client are on this machine, with
LiteMQ itself; ``measure`` starts one and runs a workload with its client.

Invariants: each measurement has a fresh server on the loopback address. A client gets the settings
that its documentation recommends for the workload, and every peer says what its acknowledgement
promises. Nothing here is needed to use LiteMQ.

May import: ``bench.baselines``, ``bench.clusters`` and the public client. The other systems'
clients are imported when they are used.
"""
