"""The public path of :mod:`penstock.loading.elastic`. Importing this module gives that one."""

from .loading.elastic import *  # noqa: F403
