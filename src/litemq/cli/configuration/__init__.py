"""Settings of the commands: one table a program; flag, environment, TOML and default, in this order."""
