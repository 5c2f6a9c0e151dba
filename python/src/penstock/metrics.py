"""The public path of :mod:`penstock.stalls.metrics`, which takes the place of this module."""

from .stalls.metrics import *  # noqa: F403
