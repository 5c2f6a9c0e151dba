"""The commands of the program `penstock` that are written in Python. The program, which is written in C, starts them."""
