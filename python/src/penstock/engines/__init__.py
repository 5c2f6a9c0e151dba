"""Connections to Ray and Spark, which read and write data sets on many machines."""
