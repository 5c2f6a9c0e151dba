"""Reports of training stalls: their file, the what-if model, text and HTML; and metrics of a running loader."""
