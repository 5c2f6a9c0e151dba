"""Files, options, units: what every other folder of the package may use."""
