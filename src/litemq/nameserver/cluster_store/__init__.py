"""The persistent facts of a cluster.

``store.py`` is the interface for broker registrations, which may be lost; ``embedded.py``
implements it. ``groups.py`` is the interface for the facts of replicated groups, which may not;
``embedded_groups.py`` implements it for one NameServer, ``etcd_groups.py`` for several.
"""
