"""Settings, workers and event times of a Spark session."""
