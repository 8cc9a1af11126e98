"""Servers without sockets and in virtual time, for the fuzzer of the network."""
