"""Tables of a page, whoever rendered it: each in a box of its own that scrolls, its caption above the box and not inside."""

import re

TABLE = re.compile(r'(?P<box><div class="table-scroll"[^>]*>\s*)?(?P<table><table\b.*?</table>)', re.S)
CAPTION = re.compile(r"<caption\b[^>]*>(.*?)</caption>\s*", re.S)
TAGS = re.compile(r"<annotation\b.*?</annotation>|<[^>]+>", re.S)


def framed(html: str) -> str:
    """The page with a box around every table; a second time changes nothing.

    >>> framed("<table><caption>Two <em>sides</em></caption><tr><td>1</td></tr></table>")
    '<div class="table-caption" id="caption-1">Two <em>sides</em></div><div class="table-scroll" role="group" aria-label="Two sides"><table aria-labelledby="caption-1"><tr><td>1</td></tr></table></div>'
    """
    count = 0

    def box(match: re.Match[str]) -> str:
        nonlocal count
        if match["box"]:
            return match[0]
        table, head, name = match["table"], "", "Table"
        if caption := CAPTION.search(table):
            count += 1
            head = f'<div class="table-caption" id="caption-{count}">{caption[1]}</div>'
            name = " ".join(TAGS.sub("", caption[1]).replace('"', "&quot;").split())
            table = CAPTION.sub("", table, count=1).replace("<table", f'<table aria-labelledby="caption-{count}"', 1)
        return f'{head}<div class="table-scroll" role="group" aria-label="{name}">{table}</div>'

    return TABLE.sub(box, html)
