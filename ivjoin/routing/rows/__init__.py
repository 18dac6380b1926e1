"""The properties of rows that routing uses: hashes, cells and reach."""
