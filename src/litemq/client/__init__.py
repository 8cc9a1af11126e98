"""The Python client: what users call, and the engine that talks to a cluster."""
