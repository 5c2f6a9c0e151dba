"""The public path of :mod:`penstock.loading.elastic`, which takes the place of this module."""

from .loading.elastic import *  # noqa: F403
