"""Numbers in prose: one module per chapter, each with ``numbers()``; the module's name is the key in ``_variables.yml``."""
