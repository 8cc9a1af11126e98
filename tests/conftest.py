"""Settings for every test."""

import os

from hypothesis import settings

# A slow minute of a shared machine is no failure. HYPOTHESIS_PROFILE=deep looks longer than CI can.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("deep", parent=settings.get_profile("default"), max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
