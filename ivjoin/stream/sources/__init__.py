"""Open inputs, choose their columns, and cut their batches into pieces."""
