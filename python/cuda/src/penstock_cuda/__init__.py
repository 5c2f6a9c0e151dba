"""Kernels of Penstock for NVIDIA GPUs. The package penstock finds the library in this folder; nothing here is called."""
