"""penstock.analyze: phases, probes of costs, and the steering of a DataLoader of torch."""
