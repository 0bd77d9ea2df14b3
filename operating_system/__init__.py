"""What our processes need of the operating system: files of their owner alone, whole files, limits, forks."""
