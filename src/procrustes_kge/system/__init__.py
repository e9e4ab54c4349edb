"""What touches the machine: devices, threads, memory, recorded GPU steps, whole files, the footprint of a run."""
