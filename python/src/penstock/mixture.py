"""The public path of :mod:`penstock.data.mixture`, which takes the place of this module."""

from .data.mixture import *  # noqa: F403
