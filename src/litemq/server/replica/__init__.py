"""A broker process of a replicated group: it follows the master, or is the master.

Entry point: ``run_replica``. ``GroupLink`` reports to the NameServers and learns from them who the
master is, ``FollowerRole`` and ``MasterRole`` are what the process does meanwhile. In both roles,
``LogRepairs`` repairs the log. ``FollowerReads`` serves clients that chose to read from a follower.

Invariants: a process begins an epoch only if the NameServers name it as the master, and only once.
A master acknowledges nothing after its lease, which it counts from before each renewal was sent.
"""
