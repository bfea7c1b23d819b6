"""netdyno: a dynamometer for deep-learning frameworks."""

__version__ = "0.1.0"
