"""The public path of :mod:`penstock.data.dataset`, which takes the place of this module."""

from .data.dataset import *  # noqa: F403
