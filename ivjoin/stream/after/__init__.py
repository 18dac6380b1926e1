"""Change joined rows: their order, their columns, and checks of how many rows match."""
