"""The state of many partitions: column batches in, match columns out."""
