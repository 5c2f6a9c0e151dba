"""The loader: its arguments, its passes over an epoch, what it delivers and what it counts; and TorchDataset."""
