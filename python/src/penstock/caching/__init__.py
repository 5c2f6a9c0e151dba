"""Caches of stored bytes and of decoded images, fleets of memcached servers, and what a plan keeps in a cache."""
