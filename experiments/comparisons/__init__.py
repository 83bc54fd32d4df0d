"""What the papers measured, with piestream beside the other methods."""
