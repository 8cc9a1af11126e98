"""Framed TCP: one connection carries many requests at once, and neither side can make the other's memory grow."""
