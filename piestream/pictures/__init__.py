"""What a query finds, drawn: time lines, and reports of one page."""

from piestream.pictures.timeline import Timeline, timeline

__all__ = ["Timeline", "timeline"]
