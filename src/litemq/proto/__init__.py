"""Protobuf schemas (``*.proto``) and the modules that ``just proto`` generates from them."""
