"""The book on paper and in a reader: the web pages without what moves, as a PDF (typst) and as an EPUB.

- ``stills``  a web page as a page that stands still: live blocks, folded boxes, steppers, links, figures as files
- ``paper``   pandoc's syntax tree as typst: headings, tables that break, turn or shrink, figures, equations with their number
- ``book.typ``, ``cover.typ``, ``epub.css``  how it looks
"""
