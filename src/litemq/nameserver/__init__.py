"""The NameServer: tracks live brokers and answers which brokers have a topic.

Independent of sockets: ``litemq.server.nameserver`` connects it to the network.
"""
