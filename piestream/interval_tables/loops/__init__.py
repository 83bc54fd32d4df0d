"""The loops over tables of intervals: 64-bit integers in, row numbers out."""
