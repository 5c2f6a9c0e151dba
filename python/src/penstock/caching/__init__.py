"""Caches of stored bytes and of decoded images, fleets of memcached servers, and the choice of samples that a plan caches."""
