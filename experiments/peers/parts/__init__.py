"""What the methods are made of, and what several of them share."""
