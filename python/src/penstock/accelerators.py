"""The public path of :mod:`penstock.stalls.accelerators`, which takes the place of this module."""

from .stalls.accelerators import *  # noqa: F403
