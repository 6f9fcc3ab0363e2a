"""One question about one machine or job: each module registers the commands of a subject."""
