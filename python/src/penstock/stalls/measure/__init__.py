"""penstock.analyze: measures phases of a training run, probes costs, and steers torch's DataLoader."""
