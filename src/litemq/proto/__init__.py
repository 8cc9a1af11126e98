"""The schema: ``*.proto``, and what ``just proto`` generates from them."""
