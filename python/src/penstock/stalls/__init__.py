"""Reports of where training stalls: their file, the what-if model, text, HTML; and metrics of a running loader."""
