"""The isolated Python installations that hold the frameworks: find, make, check, lock.

``find`` is what a measurement needs; ``netdyno.environments.builds`` is what ``setup`` needs.
"""

from netdyno.environments.environ import clean_environ
from netdyno.environments.environment import Environment, find, inspect, mend, mend_command

__all__ = ["Environment", "clean_environ", "find", "inspect", "mend", "mend_command"]
