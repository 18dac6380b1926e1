"""Changes to joined rows: their order, their columns, checks of how many rows match."""
