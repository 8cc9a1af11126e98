"""Settings of the programs, one table per program.

A flag overrides the environment, which overrides the TOML file, which overrides the default.
"""
