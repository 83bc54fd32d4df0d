"""The experiments of DejaVu (DEBS 2011): a live stream beside an archive, in each plan."""
