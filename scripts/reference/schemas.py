"""The page of the JSON that commands print."""


def page() -> str:
    from reference import commands

    parts = [
        f"## {n} {{#sec-schema-{n.replace(' ', '-')} .unnumbered}}\n\nTODO\n\n"
        for n, p in commands.parsers().items()
        if any("--json" in a.option_strings for a in commands.options(p))
    ]
    return "# JSON schemas {#sec-schemas}\n\n" + "".join(parts)
