"""The verbs of the command line that are in Python. The program `penstock` starts them."""
