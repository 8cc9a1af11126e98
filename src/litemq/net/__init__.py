"""The transport: framed TCP connections that multiplex requests and apply backpressure.

Neither side can make the memory of the other grow without bound.
"""
