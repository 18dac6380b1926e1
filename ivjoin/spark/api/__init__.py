"""What users call: joins of DataFrames, and how they are put together."""
