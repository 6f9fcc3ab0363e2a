"""Drawings of programs: from operations to regions, and how arrays and streams execute them."""
