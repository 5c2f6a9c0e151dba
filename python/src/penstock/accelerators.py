"""The public path of :mod:`penstock.stalls.accelerators`. Importing this module gives that one."""

from .stalls.accelerators import *  # noqa: F403
