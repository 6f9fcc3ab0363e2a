"""Drawings of requests, answers, batches and the steps of a server."""
