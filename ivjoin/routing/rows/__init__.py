"""What routing reads of rows: hashes, cells and reach."""
