"""The record of a function, and helpers that records share."""
