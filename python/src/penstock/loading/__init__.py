"""The loader: its arguments, its iteration over epochs, the batches that it delivers, and its statistics; and TorchDataset."""
