"""The pictures of the pages: ``python -m docs.drawing`` draws them, the tests hold that they are so."""
