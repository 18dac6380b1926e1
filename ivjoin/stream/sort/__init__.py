"""Sort inputs without an order along the band."""
