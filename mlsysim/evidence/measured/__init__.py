"""Published measurements as typed data, each with its source, and what our equations say beside them."""
