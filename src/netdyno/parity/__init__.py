"""Do they compute the same thing? Every cell against a reference in double precision.

See docs/parity.md for the checks and where the tolerances come from.
"""
