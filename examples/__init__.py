"""Questions asked of real data: the programs of the gallery (docs/gallery.md)."""
