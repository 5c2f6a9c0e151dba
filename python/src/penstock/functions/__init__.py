"""Functions of the user for samples and batches: calls, worker threads and processes, and their shared memory."""
