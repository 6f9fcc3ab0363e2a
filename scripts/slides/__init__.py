"""Slides of the chapters, from the book's own text, drawings and equations."""
