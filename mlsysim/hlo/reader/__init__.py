"""From a file to a program as data: StableHLO text or its JSON form, with its groups, loops and custom calls."""
