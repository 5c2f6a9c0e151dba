"""Runs functions of the user on samples and batches: their calls, worker threads and processes, and shared memory."""
