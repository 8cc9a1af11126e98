"""The suites behind ``litemq bench suite``: what is measured, and what each figure ought to be."""
