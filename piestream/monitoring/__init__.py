"""What a running session or job tells about itself: a file, text for people, text for Prometheus."""
