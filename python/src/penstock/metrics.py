"""The public path of :mod:`penstock.stalls.metrics`. Importing this module gives that one."""

from .stalls.metrics import *  # noqa: F403
