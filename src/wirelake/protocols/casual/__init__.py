"""The protocol casual: messages, conduct and traffic."""

from .messages import *  # noqa: F403  (its records and constants are what users import from here)
from .messages import PROTOCOL as PROTOCOL
