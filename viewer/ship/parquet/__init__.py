"""An archive of Parquet files: rows, files, and how small ones are merged."""
