"""The reference pages of the book, made from docstrings, signatures, parsers and schemas."""
