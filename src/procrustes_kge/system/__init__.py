"""What touches the machine: device, threads, memory, precision, recorded GPU steps, files, the footprint of a run."""
