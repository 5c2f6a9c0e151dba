"""Frameworks of others that read and write data sets on many machines: Ray and Spark."""
