"""The joins of DataFrames that users call."""
