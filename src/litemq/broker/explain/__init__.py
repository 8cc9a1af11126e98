"""WHY: the reason why a group has not consumed a message, in one sentence with advice.

Entry points: ``WhyRequests`` answers the request, ``EvidenceCollector`` reads the state of message
and group, ``reason`` is a pure function from the evidence to one verdict.

Invariants: answering changes nothing. Records are looked up in a thread; group state is read on the
event loop, where it changes.

May import: every broker package below ``broker.py``; it is the only capability that knows the
others.
"""
