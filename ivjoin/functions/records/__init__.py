"""What a record of a function is, and what records share."""
