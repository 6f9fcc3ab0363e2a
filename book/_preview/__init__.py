"""The preview build: the book's pages from pandoc and plain Python, for machines without Quarto.

Run ``python -m book._preview`` from the repository root. It reads ``_quarto.yml``, renders the chapters that are listed
there, and stops with every problem it found; a site appears only when there was none.

- ``config``     what ``_quarto.yml`` says, and whether its keys are spelt right
- ``source``     shortcodes: a chapter's text with its includes, variables and notebook cells put in
- ``render``     numbers, cross-references, callouts and floats over pandoc's syntax tree
- ``page``       the frame around a chapter: contents, previous and next; colours from Quarto's themes
- ``check_site`` links, anchors, alternative texts and leftovers of any rendered site, Quarto's too
"""
