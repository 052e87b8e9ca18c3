"""One asynchronous, vendor-neutral way to read the running metrics of machine-learning training jobs."""
